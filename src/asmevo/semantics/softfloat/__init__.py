"""Exact binary floating point on Python integers.

Idea. A finite number is (sign, significand, exponent) with value (-1)**sign * significand * 2**exponent and an
unbounded integer significand, so sums, products and fused products are exact; quotients and roots are cut at
enough bits and carry a sticky bit below. `encodings.rounded` is the one place where a number becomes an encoding: it
finds the unit in the last place (never below the format's smallest denormal), drops the bits below it by the rounding
mode, and handles overflow and flushed denormals. Double rounding cannot happen because nothing else rounds.

NaNs. An operation with a NaN operand gives the first such operand (in the order of the arguments), quieted: its
payload and sign stay. An invalid operation gives the quiet NaN with the sign set and no payload, as the
pseudocode of V_DIV_FIXUP_F32 writes it (0xffc00000); AMD documents neither payload choice for the other
operations, so both are this package's decision. Formats without an infinity or NaN say in `formats` what replaces
them.

Functions take and give encodings (unsigned integers of `Format.bits` bits).

    formats         what the bits of an encoding mean, and how an operation rounds
    encodings       encoding to number and, after one rounding, back
    arithmetic      sums, products, quotients, roots, exponent and mantissa
    comparison      order, minimum and maximum with their NaN rules
    conversion      other formats, integers, integral numbers
    transcendental  powers, logarithms and the circular functions
"""
