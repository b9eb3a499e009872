"""Plain stores: cut into pieces, and listed in an order that both versions share.

Plain are stores to global memory, LDS and scratch that `analysis.memory` does not call ordered. Between two effects
that are ordered they form a run. Two stores of a run *commute* if they change no common space, or if they are in one
space and certainly touch no common byte in whatever lanes (`disjoint`): memory holds the same behind both orders.

Order. A run is listed in its lexicographically least order: of all orders that differ by exchanges of neighbours that
commute the one that is smallest by (id of the address, space). Such a list is kept by insertion: a new store goes to
the foremost place that it can reach by exchanges and whose store it is smaller than. (In a least list no store can pass
to the front of a greater one over others that all commute with it; insertion keeps that.) Equal sets of stores in
orders that may be exchanged so become the same terms, and what memory holds behind them as well.

Pieces. One access of 8, 12 or 16 bytes stores all bytes of a lane before those of the next lane; two accesses store
the first dword of all lanes before the second one of any. Both leave the same bytes if no lane's dword touches another
dword of another lane, that is, if the pieces commute. Then the access is written as its dwords; where that is not
certain it stays whole. So neighbouring stores and a wide one are equal where lanes keep apart, and only there.

Loads see the contents behind those stores only that may touch their bytes, or that such a store has to stay behind:
any other store of the run may be moved behind all of these, and from there it is not seen.

That other waves cannot tell the orders apart is not shown here but by `effects`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.memory import GLOBAL, LDS, SCRATCH
from asmevo.program.instruction import Instruction
from asmevo.prover.disjoint import certainly_disjoint
from asmevo.prover.normalise import Builder
from asmevo.prover.state import Effect, State, contents_after
from asmevo.prover.terms import Term

DWORD = 4  # bytes
_SPACES = frozenset({GLOBAL, LDS, SCRATCH})


class Store(Struct, frozen=True):
    """A plain store of a lane; `space` is where the address counts, `changes` what it may change."""

    space: str
    size: int
    changes: tuple[str, ...]
    condition: Term
    address: Term
    value: Term


def is_plain(space: str) -> bool:
    """Whether stores whose addresses count in this space may be exchanged at all."""
    return space in _SPACES


def note_store(build: Builder, state: State, instruction: Instruction, store: Store) -> None:
    """Adds a plain store to the run."""
    state.turn += 1
    settled = state.settled.get(store.space, 0)
    for piece in _pieces(build, store):
        _insert(build, state, Effect(_term(build, state.memory, piece), instruction, state.turn, settled))


def store_of(effect: Effect) -> Store:
    """The store that an effect of a run is."""
    assert isinstance(effect.term.data, tuple)
    _, (_, space, size), _, changes = effect.term.data
    condition, address, value = effect.term.args[-3:]
    return Store(space, size, changes, condition, address, value)


def seen_by_load(build: Builder, state: State, space: str, shown: str, address: Term, size: int) -> Term:
    """The contents of memory as a load of `size` bytes there sees them.

    `space` is where the address counts, `shown` the space whose contents the load reads.
    """
    contents = state.memory[shown]
    if not is_plain(space) or state.run_start == len(state.effects):
        return contents
    wanted = Store(space, size, (shown,), build.true, address, address)
    kept: list[Store] = []
    run = [store_of(effect) for effect in state.effects[state.run_start :]]
    for store in reversed(run):
        if not commute(build, store, wanted) or not all(commute(build, store, each) for each in kept):
            kept.append(store)
    return _behind(build, state.run_memory, reversed(kept))[shown]


def commute(build: Builder, one: Store, other: Store) -> bool:
    """Whether memory is the same behind the two in either order."""
    if set(one.changes).isdisjoint(other.changes):
        return True
    if one.space != other.space:
        return False
    own = one.space == SCRATCH
    return certainly_disjoint(build, one.address, one.size, other.address, other.size, own)


def _pieces(build: Builder, store: Store) -> list[Store]:
    if store.size <= DWORD:
        return [store]
    pieces = [
        replace(
            store,
            size=DWORD,
            address=build.total(store.address.bits, low, ((1, store.address),)),
            value=build.slice(store.value, 8 * low, 8 * DWORD),
        )
        for low in range(0, store.size, DWORD)
    ]
    apart = all(commute(build, one, other) for place, one in enumerate(pieces) for other in pieces[:place])
    return pieces if apart else [store]


def _insert(build: Builder, state: State, new: Effect) -> None:
    run = state.effects[state.run_start :]
    added, place = store_of(new), len(run)
    key = _key(added)
    if any(key < _key(store_of(effect)) for effect in run):
        stores = [store_of(effect) for effect in run]
        for number in range(len(run) - 1, -1, -1):
            if not commute(build, stores[number], added):
                break
            if key < _key(stores[number]):
                place = number
    moved = [new, *run[place:]]
    memory = _behind(build, state.run_memory, map(store_of, run[:place])) if len(moved) > 1 else dict(state.memory)
    del state.effects[state.run_start + place :]
    for effect in moved:
        store = store_of(effect)
        state.effects.append(replace(effect, term=_term(build, memory, store)))
        memory = _behind(build, memory, [store])
    state.memory = memory


def _key(store: Store) -> tuple[int, str]:
    return store.address.id, store.space


def _behind(build: Builder, memory: dict[str, Term], stores: Iterable[Store]) -> dict[str, Term]:
    """What memory holds behind some stores."""
    memory = dict(memory)
    for store in stores:
        term = _term(build, memory, store)
        memory.update([(space, contents_after(build, term, space)) for space in store.changes])
    return memory


def _term(build: Builder, memory: dict[str, Term], store: Store) -> Term:
    contents = [memory[space] for space in store.changes]
    name = ("store", store.space, store.size)
    data = ("effect", name, len(contents), store.changes)
    return build.terms.make("memory", 0, [*contents, store.condition, store.address, store.value], data, False)
