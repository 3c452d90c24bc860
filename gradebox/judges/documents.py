"""The documents of a thread, which were retrieved to answer it, and the judges that ask about them."""

from collections.abc import Mapping
from typing import Any

from gradebox.asks.model import Model
from gradebox.judges import fields
from gradebox.thread import StringThread

_TEXTS = ("content", "text", "page_content")  # keys of the text of a document that is an object
_RULES = frozenset(("system", "developer"))


class DocumentsJudge:
    """What judges that ask a model about documents have in common."""

    def __init__(
        self,
        model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a judge.

        Args:
            model: the model's key in the project.
            documents: the metadata field that holds the documents. None: turns of the role `document`, and
                `metadata.documents`.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of a reply.
            seed: random seed, for servers that support it.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        if documents is not None and (not isinstance(documents, str) or not documents.strip()):
            raise ValueError(f'documents= names a field, as "metadata.retrieved", and {documents!r:.80} is none')
        self._model = Model(model)
        self._documents = documents
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._model.key!r})"


def documents_of(thread: StringThread, where: str | None) -> list[str]:
    """Return the documents in this metadata field; without a field, the turns of the role `document` and
    `metadata.documents`. Empty documents are left out.

    Raises:
        ValueError: there is no such field, or its value is not a list of documents.
    """
    if where is not None:
        return _read(fields.value_of(thread, where), where)
    found = [content for role, content in thread.messages() if role == "document" and content.strip()]
    kept = thread.metadata.get("documents") if isinstance(thread.metadata, Mapping) else None
    return found if kept is None else found + _read(kept, "metadata.documents")


def context_of(thread: StringThread, where: str | None) -> dict[str, str]:
    """Return the context that can support a completion, by displayed name: the documents; and, unless a metadata field
    is given, the turns before the last question, without system turns.

    Raises:
        ValueError: see `documents_of`.
    """
    found = {f"document {number}": text for number, text in enumerate(documents_of(thread, where), 1)}
    if where is not None:
        return found
    before = thread.messages()
    last = max((number for number, (role, _) in enumerate(before) if role == "user"), default=len(before))
    turns = [turn for turn in before[:last] if turn[0] not in _RULES and turn[0] != "document"]
    return ({"conversation": fields.listed(turns)} if turns else {}) | found


def _read(value: Any, where: str) -> list[str]:
    documents = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(documents, list | tuple):
        raise ValueError(f"{where} holds {value!r:.80}, and documents are texts in a list")
    return [text for text in (_text(each, where) for each in documents) if text.strip()]


def _text(document: Any, where: str) -> str:
    if isinstance(document, Mapping):
        document = next((document[name] for name in _TEXTS if name in document), document)
    if not isinstance(document, str):
        raise ValueError(
            f"{where} holds the document {document!r:.80}: a document is a text, or an object with one as "
            f"{', '.join(_TEXTS)}"
        )
    return document
