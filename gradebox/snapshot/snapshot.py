"""Describes the values of a module as texts, which two processes can compare."""

import array
import collections
import contextvars
import datetime
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import importlib
import operator
import pathlib
import re
import types
import uuid
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from types import FunctionType
from typing import Any

from gradebox.snapshot.function_code import UNKNOWN, code_text
from gradebox.snapshot.module_settings import SETTINGS, precision
from gradebox.snapshot.object_state import hashed, state_of

CODE = " (its code)"
ORDER = " (its order)"
MAY_CHANGE = "\0"
"""In a path: the grader may have changed what follows, if it ran here."""
STATE = " (its state)"
"""After what calls advance: an iterator, a stream or a generator of random numbers."""
OTHER_NAMES = " (its other names)"
"""After the name of a value that can be changed: the names that have the same object."""
UNDESCRIBED = "an object"
"""The text of an object of which nothing is known."""
CUT = " (its other parts)"
"""After the name of a value that has more parts than are described."""
_MOST_PARTS = 20_000  # of a name
_LONG = 1000  # of a container with as many plain items, a digest stands for all
_MOST_DIGESTED = 1_000_000  # items; of longer containers, only the length is compared
_TABLE = 100_000  # cells of a table of pandas; of larger ones, only the shape is compared
_ARRAY_BYTES = 256_000_000  # of what gives an array, as a large file may; of larger ones, only the type is compared
_DEPTH = 12
_CHARS = 60
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, range, slice)
_VALUES = (
    *(decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
    *(pathlib.PurePath, uuid.UUID),
)
_SEQUENCES = (list, tuple, collections.deque, array.array)
_WEAK = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_UNCHANGED = (*_PLAIN, *_VALUES, tuple, frozenset, re.Pattern, enum.Enum, type, FunctionType, types.ModuleType)
_CONTAINERS = (*_SEQUENCES, *_WEAK, dict, set, frozenset, types.MappingProxyType)


# Classes of the standard library whose objects are their attributes.
_OF_ATTRIBUTES = {
    *("argparse.Namespace", "collections.ChainMap", "collections.UserDict", "collections.UserList"),
    *("collections.UserString", "email.message.Message", "statistics.NormalDist", "string.Template"),
    *("json.encoder.JSONEncoder", "textwrap.TextWrapper"),
    *("types.SimpleNamespace", "configparser.ConfigParser", "configparser.RawConfigParser"),
}
# Attributes of classes that Python or pydantic writes, and that say nothing of what the class does.
_OF_PYTHON = {
    *("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_params__"),
    *("__dataclass_fields__", "__parameters__", "__orig_bases__", "__slots__", "_abc_impl"),
    "_value2member_map_",  # it is also a cache of combined flags
    "__pydantic_core_schema__",  # made of the fields, which are compared; it contains addresses of classes
    "__pydantic_setattr_handlers__",  # a cache of the attributes that were set
}


class Snapshot:
    """Texts of values, by path: `{"CONFIG.limit": "5", "RULES": "list of 2", "RULES[0]": "function has_a"}`.

    Values whose type is known to change by assignment alone are described in full, and of iterators, streams and
    generators of random numbers what they give next; of others, such as locks, only the type.

    Attributes:
        texts: what was described so far.
    """

    def __init__(
        self,
        module: Mapping[str, Any],
        names: Mapping[str, str],
        changing: Collection[str] = (),
        changed: Collection[str] = (),
        others: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Describes nothing yet.

        Args:
            module: the globals of the module whose functions and classes are described.
            names: other names that its functions have in the texts.
            changing: attributes that the grader may change, as `class.attribute`, or `.attribute` of every class.
            changed: names at module level that it may change, of other modules as `module:name`.
            others: the globals of the author's other modules, by name.
        """
        self.texts: dict[str, str] = {}
        self._module = module
        self._others = others or {}
        self._names = names
        self._changing = changing
        self._changed = changed
        self._open: set[int] = set()
        self._most = 0

    def add(self, name: str) -> None:
        """Describes the value of a name, if the module has it under this name or the other one."""
        other = {name: key for key, name in self._names.items()}.get(name, name)
        value = self._module.get(other, self._module.get(name, self))
        if value is not self:
            self._top(name, value)

    def add_of(self, module: str, name: str) -> None:
        """Describes the value of a name of another module, if it has it."""
        if name in self._others.get(module, {}):
            self._top(f"{module}:{name}", self._others[module][name])

    def _top(self, name: str, value: object) -> None:
        """Describes the value of a name at module level."""
        self._most = len(self.texts) + _MOST_PARTS
        path = name + MAY_CHANGE if name in self._changed else name
        if isinstance(value, FunctionType) and self._is_own(value):
            self._function(path, value)
        elif isinstance(value, type) and self._is_own(value):
            self._class(path, value)
        else:
            self._value(path, value)
        if len(self.texts) >= self._most:
            self.texts[name + CUT] = UNKNOWN

    def add_other_names(self, name: str, names: Collection[str]) -> None:
        """Describes which of these names at module level have the same object as `name`, if it can be changed. A list,
        dict or set that the grader does not change may have been uploaded as two equal ones.
        """
        value = self._module.get(name)
        if not isinstance(value, _UNCHANGED if name in self._changed else (*_UNCHANGED, list, dict, set)):
            others = sorted(each for each in names if each != name and self._module.get(each) is value)
            self.texts[name + OTHER_NAMES] = ", ".join(others)

    def add_settings(self, module: str) -> None:
        """Describes what a module of the standard library was set to, as in `SETTINGS`, or the value of
        `module:attribute`.
        """
        self._most = len(self.texts) + _MOST_PARTS
        if module in SETTINGS:
            name, setting = SETTINGS[module]
            self._value(f"{module}.{name}", setting())
        else:
            name, _, attribute = module.partition(":")
            with suppress(AttributeError):  # the author added it
                self._value(f"{name}.{attribute}", operator.attrgetter(attribute)(importlib.import_module(name)))

    def _value(self, path: str, value: object) -> None:
        if len(self.texts) >= self._most:
            return
        if len(self._open) >= _DEPTH or id(value) in self._open:
            self.texts[path] = UNKNOWN
            return
        self._open.add(id(value))
        try:
            self.texts[path] = self._text(value)
            for part, inner in self._parts(value):
                if len(self.texts) >= self._most:
                    break
                self._value(path + part, inner)
        except Exception:  # noqa: BLE001  # what a class of the author raises when it is looked at
            self.texts[path] = UNKNOWN
        finally:
            self._open.remove(id(value))

    def _text(self, value: object) -> str:
        kind = type(value)
        if kind in _PLAIN or isinstance(value, _VALUES):
            return _short(repr(value))
        if isinstance(value, enum.Enum):
            return f"{kind.__name__}.{value.name}"
        if isinstance(value, re.Pattern):
            return _short(f"re.compile({value.pattern!r}, {value.flags})")
        if isinstance(value, FunctionType | type):
            return self._reference(value)
        if isinstance(value, types.BuiltinMethodType):
            return f"function {value.__qualname__}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if kind.__module__.partition(".")[0] == "numpy":
            return _numpy(value)
        if kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "to_csv"):
            return _pandas(value)
        if _reading_adds(value):
            return kind.__name__
        if isinstance(value, _CONTAINERS):
            return f"{kind.__name__} of {len(value)}" + (f", {_digest(value)}" if _is_long(value) else "")
        return kind.__name__ if self._is_own(kind) else UNDESCRIBED

    def _reference(self, value: FunctionType | type) -> str:
        kind = "class" if isinstance(value, type) else "function"
        if not self._is_own(value) or value.__module__ in self._others:
            return f"{kind} {value.__module__}.{value.__qualname__}"
        name = self._names.get(value.__qualname__, value.__qualname__)
        return f"{kind} {name}" if name.isidentifier() else kind

    def _parts(self, value: object) -> Iterator[tuple[str, object]]:
        if isinstance(value, type) or type(value) in _PLAIN or _is_long(value):
            return
        if isinstance(value, FunctionType):
            yield from self._inside(value)
        elif isinstance(value, collections.OrderedDict):
            yield from ((f"[{n}]", item) for n, item in enumerate(value.items()))
        elif isinstance(value, dict | types.MappingProxyType):
            items = list(dict.items(value) if isinstance(value, dict) else value.items())
            default = getattr(value, "default_factory", None)
            read = MAY_CHANGE if _reading_adds(value) and not isinstance(default, type) else ""
            for key, item in items:
                if type(item) is not default or item:
                    yield from ((f"{read}[{text}]", item) for text in self._key(key))
            if len(items) > 1 and not _reading_adds(value):
                yield ORDER, ", ".join(text for key, _ in items for text in self._key(key))
        elif isinstance(value, _SEQUENCES):
            yield from ((f"[{n}]", item) for n, item in enumerate(value))
        elif isinstance(value, set | frozenset):
            yield from ((f"{{{text}}}", None) for item in value for text in self._key(item))
        elif isinstance(value, functools.partial):
            yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
        elif isinstance(value, staticmethod | classmethod | types.MethodType):
            yield ".__func__", value.__func__
        elif isinstance(value, property):
            yield from ((".fget", value.fget), (".fset", value.fset))
        elif isinstance(value, functools.cached_property):
            yield ".func", value.func
        elif isinstance(value, decimal.Context):
            yield from ((f".{name}", item) for name, item in precision(value).items())
        elif isinstance(value, contextvars.ContextVar):
            yield ".get()", value.get(None)
        elif (state := state_of(value)) is not None:
            yield f"{MAY_CHANGE}{STATE}", state
        elif hasattr(type(value), "cache_info"):
            yield ".__wrapped__", getattr(value, "__wrapped__", None)
        elif _is_of_torch(value, "Module") and not self._is_own(type(value)):  # else its attributes have them
            model: Any = value
            yield ".state_dict()", dict(model.state_dict())
            yield ".training", [each.training for each in model.modules()]
        if isinstance(value, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType):
            yield ".__self__", value.__self__
        if f"{type(value).__module__}.{type(value).__name__}" in _OF_ATTRIBUTES or self._is_own(type(value)):
            yield from ((self._attribute(value, name), item) for name, item in self._attributes(value))
        is_array = hasattr(type(value), "__array__") and not hasattr(type(value), "to_csv")  # such as a tensor
        if is_array and getattr(value, "nbytes", 0) <= _ARRAY_BYTES:
            array = _array(value)
            if array.dtype.hasobject:
                yield ".tolist()", array.tolist()
            elif array is not value:
                yield ".__array__()", array

    def _key(self, key: object) -> list[str]:
        """The text of a key or a member of a set; none if its text does not tell it from others."""
        if isinstance(key, tuple | frozenset):
            parts = [self._key(part) for part in key]
            texts = ["".join(part) for part in parts]
            text = ", ".join(texts if isinstance(key, tuple) else sorted(texts))
            return [_short(f"({text})")] if all(parts) else []
        if type(key) in _PLAIN or isinstance(key, (*_VALUES, enum.Enum, FunctionType, type)):
            return [self._text(key)]
        return []

    def _inside(self, function: FunctionType) -> Iterator[tuple[str, object]]:
        """Of a function: what it carries."""
        if self._is_own(function):
            yield from self._carried(function)
        else:
            items = vars(function).items()
            yield from ((f".{name}", item) for name, item in items if name != "_clear_cache")  # of `singledispatch`

    def _carried(self, function: FunctionType) -> Iterator[tuple[str, object]]:
        yield CODE, code_text(function.__code__)
        for n, value in enumerate(function.__defaults__ or ()):
            yield f"{_may_fill(value)} (its default {n + 1})", value
        for name, value in (function.__kwdefaults__ or {}).items():
            yield f"{_may_fill(value)} (its default {name})", value
        rebound = {each.argval for each in dis.get_instructions(function.__code__) if each.opname == "STORE_DEREF"}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            content = _content(cell)
            changes = MAY_CHANGE if name in rebound else _may_fill(content)
            yield f"{changes} ({name} of its closure)", content
        yield from ((self._attribute(function, name), item) for name, item in vars(function).items())

    def _function(self, path: str, function: FunctionType) -> None:
        self.texts[path] = self._reference(function)
        for part, value in self._carried(function):
            self._value(path + part, value)

    def _class(self, path: str, value: type) -> None:
        self.texts[path] = f"class of {', '.join(base.__qualname__ for base in value.__bases__)}"
        for name, item in sorted(vars(value).items()):
            if name in _OF_PYTHON:
                continue
            if isinstance(item, FunctionType) and self._is_own(item):
                self._function(path + self._attribute(value, name), item)
            elif name != "__init__":  # `typing` writes one into classes of protocols when the first object is made
                self._value(path + self._attribute(value, name), item)

    def _attribute(self, owner: object, name: str) -> str:
        kinds = (*type(owner).__mro__, *(owner.__mro__ if isinstance(owner, type) else ()))
        may_change = f".{name}" in self._changing or any(f"{each.__name__}.{name}" in self._changing for each in kinds)
        return f"{MAY_CHANGE if may_change else ''}.{name}"

    def _attributes(self, value: object) -> Iterator[tuple[str, object]]:
        kept = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            names = {slots} if isinstance(slots, str) else set(slots)
            kept |= {name: getattr(value, name) for name in names - set(_OF_PYTHON) if hasattr(value, name)}
        for name, item in kept.items():
            if not isinstance(getattr(type(value), name, None), functools.cached_property):
                yield name, item

    def _is_own(self, value: FunctionType | type) -> bool:
        if isinstance(value, FunctionType):
            return any(value.__globals__ is module for module in (self._module, *self._others.values()))
        return value.__module__ == self._module.get("__name__") or value.__module__ in self._others


def _reading_adds(value: object) -> bool:
    """Whether reading a key may add it."""
    if isinstance(value, collections.defaultdict):
        return value.default_factory is not None
    return hasattr(type(value), "__missing__") and not isinstance(value, collections.Counter)


def _may_fill(value: object) -> str:
    """The mark of a container that a function carries: it may fill it, as a cache."""
    return MAY_CHANGE if isinstance(value, dict | list | set) else ""


def _is_long(value: object) -> bool:
    """Whether this is a long container of plain values only."""
    if not isinstance(value, list | tuple | dict | set | frozenset) or type(value).__module__ != "builtins":
        return False
    parts = chain(value, value.values()) if isinstance(value, dict) else value
    return len(value) >= _LONG and all(type(part) in _PLAIN for part in parts)


def _digest(value: Collection[object]) -> str:
    if len(value) > _MOST_DIGESTED:
        return "not compared"
    texts = sorted(map(repr, value)) if isinstance(value, set | frozenset) else repr(value)
    return hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _is_of_torch(value: object, name: str) -> bool:
    """Whether the value is of the class of torch with this name, or of a subclass."""
    kinds = type(value).__mro__
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == "torch" for kind in kinds)


def _array(value: Any) -> Any:
    """The array that a value gives."""
    if not _is_of_torch(value, "Tensor"):
        return value.__array__()
    try:
        return value.numpy(force=True)
    except TypeError:  # numpy has no bfloat16
        return value.float().numpy(force=True)


def _numpy(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return UNDESCRIBED
    if not hasattr(value, "__setitem__"):  # a scalar
        return _short(repr(value))
    content = f"{value.size} objects" if value.dtype.hasobject else hashlib.sha256(value.tobytes()).hexdigest()[:16]
    return f"array {value.shape} of {value.dtype}, {content}"


def _pandas(value: Any) -> str:
    digest = hashed(value.to_csv()) if value.size <= _TABLE else "not compared"
    return f"{type(value).__name__} {value.shape}, {digest}"


def _short(text: str) -> str:
    if len(text) <= _CHARS:
        return text
    return f"{text[: _CHARS // 2]}… ({len(text):,} characters, {hashlib.sha256(text.encode()).hexdigest()[:8]})"
