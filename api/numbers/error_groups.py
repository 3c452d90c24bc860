"""Groups errors with similar messages."""

from collections import Counter
from time import perf_counter

import msgspec

from gradebox.schemas.outcome_table import TEXT_CHARACTERS, ErrorGroup, ErrorGroups, KindGroups
from gradebox.similar_messages import Similar, group_of

GROUPS = 50
"""The groups of a kind that are returned."""
INDICES = 5
_COUNTED = 10_000  # groups per kind: errors of further groups only count as others
_TIME_S = 20.0  # for all messages: later errors count as others, unless their group is cached
_REMEMBERED = 20_000  # messages whose group is cached, of at most `_SHORT` characters
_SHORT = 500


class _Group:
    def __init__(self, example: str) -> None:
        self.example = example[:TEXT_CHARACTERS]
        self.count = 0
        self.indices: list[int] = []


class ErrorCounter:
    """Counts the errors of one grader, and spends at most `time_s` on grouping messages."""

    def __init__(self, grader: str, time_s: float = _TIME_S) -> None:
        self._grader = grader
        self._left_s = time_s
        self._counts: Counter[str] = Counter()
        self._groups: dict[str, dict[Similar, _Group]] = {}
        self._keys: dict[str, Similar] = {}

    def add(self, index: int, kind: str, message: str) -> None:
        """Counts the error of a thread."""
        self._counts[kind] += 1
        groups = self._groups.setdefault(kind, {})
        key = self._key(message)
        if key is None:
            return
        group = groups.get(key)
        if group is None:
            if len(groups) >= _COUNTED:
                return
            group = groups[key] = _Group(message)
        group.count += 1
        if len(group.indices) < INDICES:
            group.indices.append(index)

    def _key(self, message: str) -> Similar | None:
        found = self._keys.get(message)
        if found is None and self._left_s > 0:
            started = perf_counter()
            found = group_of(message)
            self._left_s -= perf_counter() - started
            if len(self._keys) < _REMEMBERED and len(message) <= _SHORT:
                self._keys[message] = found
        return found

    def pack(self) -> bytes:
        """The groups in the form that the API returns."""
        kinds = [self._kind(kind, count) for kind, count in self._counts.most_common()]
        return msgspec.json.encode(ErrorGroups(self._grader, self._counts.total(), kinds))

    def _kind(self, kind: str, count: int) -> KindGroups:
        largest = sorted(self._groups[kind].items(), key=lambda item: -item[1].count)[:GROUPS]
        groups = [ErrorGroup(message, line, one.count, one.example, one.indices) for (message, line), one in largest]
        told = sum(one.count for one in groups)
        return KindGroups(kind, count, groups, count - told)  # type: ignore[arg-type]  # validated when it was read
