"""From the guest's records to outcomes. The records may come from a process that a completion has taken over, so all
that they say is checked again.
"""

from collections.abc import Callable

from gradebox.outcome import ErrorKind, Outcome, OutcomeError
from sandbox.guest.frames import (
    BAD_INPUT,
    BAD_RETURN,
    CRASH,
    EXCEPTION,
    ID_NUMBER,
    ID_TEXT,
    MARK,
    MEMORY,
    MESSAGE,
    REASON,
    RECORD,
    SCORED,
    STDOUT,
    TIMEOUT,
    TRACE,
    Limits,
    Malformed,
    is_plain,
    most_of_fields,
    unpack_fields,
)

KINDS: dict[int, ErrorKind] = {
    EXCEPTION: "exception",
    BAD_RETURN: "bad_return",
    TIMEOUT: "timeout",
    MEMORY: "memory",
    CRASH: "crash",
    BAD_INPUT: "bad_input",
}
_INFINITY = float("inf")
_SCORED = MARK | SCORED
_NOT_FINITE = OutcomeError("bad_return", "the score that came out of the sandbox is not finite")
_OUT_OF_MEMORY = "all processes together wanted more memory than `memory_mb` allows: use less, or raise it"


class Decoder:
    """Reads the records of one grading call, which belong to consecutive threads.

    `ran_out_of_memory` is asked when a process was ended by nobody knows whom: the kernel may have done it. `limits`
    are those that the guest was told: a record that was forged may say more.
    """

    def __init__(self, label: str, limits: Limits, ran_out_of_memory: Callable[[], bool]) -> None:
        self._label = label
        self._most = most_of_fields(limits)
        self._ran_out_of_memory = ran_out_of_memory
        self.traces: dict[int, str] = {}

    def decode(self, data: bytes, first_index: int) -> list[Outcome]:
        """The outcomes of whole records.

        Raises:
            Malformed: these are no records.
        """
        label = self._label
        if is_plain(data, len(data)):
            outcomes = [
                Outcome(index, label, score, micros / 1000)
                for index, (micros, score, _, kind) in enumerate(RECORD.iter_unpack(data), first_index)
                if kind == _SCORED and -_INFINITY < score < _INFINITY
            ]
            if len(outcomes) * RECORD.size == len(data):
                return outcomes
        return self._decode_each(data, first_index)

    def _decode_each(self, data: bytes, first_index: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        position = 0
        while position < len(data):
            micros, score, length, kind = RECORD.unpack_from(data, position)
            position += RECORD.size
            fields = unpack_fields(data[position : position + length], self._most)
            position += length
            outcomes.append(self._outcome(first_index + len(outcomes), kind ^ MARK, micros, score, fields))
        return outcomes

    def _outcome(self, index: int, kind: int, micros: int, score: float, fields: dict[int, bytes]) -> Outcome:
        error = None
        if kind == SCORED:
            error = None if -_INFINITY < score < _INFINITY else _NOT_FINITE
        elif kind in KINDS:
            error = self._error(kind, _text(fields.get(MESSAGE)) or "")
            if trace := _text(fields.get(TRACE)):
                self.traces[index] = trace
        else:
            raise Malformed(f"a record of kind {kind}")
        return Outcome(
            index,
            self._label,
            None if error else score,
            micros / 1000,
            id=_identity(fields),
            reason=None if error else _text(fields.get(REASON)),
            error=error,
            stdout=_text(fields.get(STDOUT)),
        )

    def _error(self, kind: int, message: str) -> OutcomeError:
        if kind == CRASH and self._ran_out_of_memory():
            return OutcomeError("memory", _OUT_OF_MEMORY)
        return OutcomeError(KINDS[kind], message)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _identity(fields: dict[int, bytes]) -> str | int | None:
    number = fields.get(ID_NUMBER)
    if number is None:
        return _text(fields.get(ID_TEXT))
    try:
        value = int(number)
    except ValueError:
        raise Malformed("an id that is no number") from None
    if abs(value) >= 1 << 63:
        raise Malformed("an id of more than 64 bits")
    return value
