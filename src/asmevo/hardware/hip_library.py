"""HIP's runtime library through ctypes: the calls that a launch needs, each checked.

Only worker processes import this module and load the library, see `worker`. Signatures and constants are those of
`hip/hip_runtime_api.h` and `hip/hip_ext.h`, which have not changed from ROCm 5 to 7 for these calls.

A GPU's architecture (`gcnArchName`, "gfx942:sramecc+:xnack-") stands in `hipDeviceProp_t`, whose layout did change with
ROCm 6. A library of ROCm 6 or later still exports `hipGetDeviceProperties` with the old layout, and with the new one
`hipGetDevicePropertiesR0600`. Neither layout is relied on here: the structure is filled into a larger buffer of zeros,
and the one string in it, behind the name, that is spelled like an architecture is taken. Two or none are an error.

Launches go through `hipExtModuleLaunchKernel`: it takes the grid in work-items, as manifests do, so that the last
workgroup may be smaller, and its second event is bound to the kernel itself. The first is a marker just before it on
the queue, or the kernel's own begin, by the runtime's version (clr, `ihipModuleLaunchKernel`).
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from asmevo.hardware.messages import LIBRARY_VARIABLE

_NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_ROOT_VARIABLES = ("ROCM_PATH", "HIP_PATH")
_ROCM = "/opt/rocm"

_SUCCESS = 0
_PROPERTIES_BYTES = 16384  # several times the size of any hipDeviceProp_t so far
_NAME_BYTES = 256  # hipDeviceProp_t::name, the first field of every layout
_ARCHITECTURE = re.compile(rb"(?<![\x21-\x7e])(gfx[0-9a-f]+(?::[a-z]+[+-])*)\0")
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3  # HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "hipInit": (c_uint,),
    "hipGetDeviceCount": (POINTER(c_int),),
    "hipSetDevice": (c_int,),
    "hipDeviceGetName": (c_char_p, c_int, c_int),
    "hipRuntimeGetVersion": (POINTER(c_int),),
    "hipMalloc": (POINTER(c_void_p), c_size_t),
    "hipFree": (c_void_p,),
    "hipMemcpyHtoD": (c_void_p, c_void_p, c_size_t),
    "hipMemcpyDtoH": (c_void_p, c_void_p, c_size_t),
    "hipModuleLoadData": (POINTER(c_void_p), c_void_p),
    "hipModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "hipExtModuleLaunchKernel": (
        c_void_p, *(c_uint,) * 6, c_size_t, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p, c_void_p, c_uint,
    ),
    "hipDeviceSynchronize": (),
    "hipEventCreate": (POINTER(c_void_p),),
    "hipEventSynchronize": (c_void_p,),
    "hipEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
}  # fmt: skip
"""Arguments of the calls that return a `hipError_t`."""

_OTHER_NAMES = {
    "hipExtModuleLaunchKernel": (
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j"
    )
}
"""Where the call was not yet `extern "C"`: ROCm 5.2 and 5.7 export that name alone, 6.4 both."""


class LibraryMissingError(Exception):
    """No HIP runtime library could be loaded; the words say which were tried."""


class HipCallError(Exception):
    """A call did not succeed: its name, the `hipError_t`, and HIP's own words for that."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(f"{call}: {words} (error {code})")
        self.call = call
        self.code = code


def library_places() -> Iterator[str]:
    """File names to load the library from, in the order in which they are tried."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        yield named
        return
    for root in (os.environ.get(each) for each in _ROOT_VARIABLES):
        if root:
            yield from (str(Path(root) / "lib" / name) for name in _NAMES)
    yield from _NAMES
    yield from (f"{_ROCM}/lib/{name}" for name in _NAMES)


def _load() -> ctypes.CDLL:
    reasons: list[str] = []
    for place in library_places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            if os.environ.get(LIBRARY_VARIABLE) or Path(place).exists():
                reasons.append(f"{place} cannot be loaded ({error})")
    raise LibraryMissingError(reasons[0] if reasons else f"no {_NAMES[0]} was found")


class HipLibrary:
    """The library, initialised. Raises LibraryMissingError; every method raises HipCallError."""

    def __init__(self) -> None:
        self._library = _load()
        self._words_of = self._function("hipGetErrorString")
        self._words_of.argtypes, self._words_of.restype = (c_int,), c_char_p
        self._functions = {name: self._function(name) for name in SIGNATURES}
        for name, function in self._functions.items():
            function.argtypes, function.restype = SIGNATURES[name], c_int
        self._call("hipInit", 0)

    def _function(self, name: str) -> Any:
        for spelled in (name, _OTHER_NAMES.get(name, name)):
            if hasattr(self._library, spelled):
                return getattr(self._library, spelled)
        raise LibraryMissingError(f"{self._library._name} has no function {name}")

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, self._functions[name](*arguments))

    def _check(self, name: str, code: int) -> None:
        if code != _SUCCESS:
            words = self._words_of(code)
            raise HipCallError(name, code, words.decode(errors="replace") if words else "no words for it")

    @property
    def version(self) -> int:
        """The runtime's version, ten million a major release."""
        found = c_int()
        self._call("hipRuntimeGetVersion", byref(found))
        return found.value

    def device_count(self) -> int:
        """How many GPUs the runtime sees."""
        found = c_int()
        self._call("hipGetDeviceCount", byref(found))
        return found.value

    def use(self, device: int) -> None:
        """All later calls are about that GPU."""
        self._call("hipSetDevice", device)

    def device_name(self, device: int) -> str:
        """The product's name; may be empty."""
        raw = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("hipDeviceGetName", raw, _NAME_BYTES, device)
        return raw.value.decode(errors="replace")

    def architecture(self, device: int) -> str:
        """The target id, e.g. "gfx942:sramecc+:xnack-", see the module."""
        raw = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        name = "hipGetDevicePropertiesR0600"
        if not hasattr(self._library, name):
            name = "hipGetDeviceProperties"
        function = self._function(name)
        function.argtypes, function.restype = (c_void_p, c_int), c_int
        self._check(name, function(raw, device))
        found = _ARCHITECTURE.findall(raw.raw, _NAME_BYTES)
        if len(found) != 1:
            words = "several architectures" if found else "no architecture"
            raise HipCallError(name, _SUCCESS, f"{words} in what it says of GPU {device}")
        return str(found[0].decode())

    def allocate(self, size: int) -> int:
        """The address of `size` bytes of the GPU's memory."""
        found = c_void_p()
        self._call("hipMalloc", byref(found), size)
        if not found.value:
            raise HipCallError("hipMalloc", _SUCCESS, f"no address for {size} bytes")
        return found.value

    def free(self, address: int) -> None:
        """Gives memory back."""
        self._call("hipFree", address)

    def write(self, address: int, content: bytes) -> None:
        """Copies into the GPU's memory."""
        self._call("hipMemcpyHtoD", address, content, len(content))

    def read(self, address: int, size: int) -> bytes:
        """Copies out of the GPU's memory."""
        raw = ctypes.create_string_buffer(size)
        self._call("hipMemcpyDtoH", raw, address, size)
        return raw.raw

    def synchronise(self) -> None:
        """Waits for everything that the GPU has to do."""
        self._call("hipDeviceSynchronize")

    def load(self, image: bytes) -> int:
        """A module from a code object; its bytes must live as long as the module, which is the process's time."""
        found = c_void_p()
        self._call("hipModuleLoadData", byref(found), image)
        return found.value or 0

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        found = c_void_p()
        self._call("hipModuleGetFunction", byref(found), module, name.encode())
        return found.value or 0

    def event(self) -> int:
        """An event that takes a time."""
        found = c_void_p()
        self._call("hipEventCreate", byref(found))
        return found.value or 0

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        workgroup: Sequence[int],
        lds: int,
        arguments: bytes,
        events: tuple[int, int],
    ) -> None:
        """Starts a kernel: `grid` and `workgroup` in work-items, dynamic LDS in bytes, the argument segment's bytes.

        What the code object calls hidden among the arguments the runtime fills in itself. The two events take times:
        just before the kernel and at its end.
        """
        segment = ctypes.create_string_buffer(arguments, len(arguments))
        size = c_size_t(len(arguments))
        extra = (c_void_p * 5)(
            _BUFFER_POINTER, ctypes.cast(segment, c_void_p), _BUFFER_SIZE, ctypes.cast(byref(size), c_void_p), _END
        )  # fmt: skip
        self._call("hipExtModuleLaunchKernel", function, *grid, *workgroup, lds, None, None, extra, *events, 0)

    def elapsed(self, events: tuple[int, int]) -> float:
        """Milliseconds from the first event to the second, after waiting for it."""
        self._call("hipEventSynchronize", events[1])
        found = c_float()
        self._call("hipEventElapsedTime", byref(found), *events)
        return found.value
