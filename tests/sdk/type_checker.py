"""Judges JSON by the types that an SDK publishes: pydantic models, typed dictionaries, unions, literals.

Stricter than the SDKs themselves: a member that no type names, a missing required member, a value of the wrong type or
outside its literals is a problem. Problems are pairs of a path (indexes left out, so that they can be counted) and a text.
"""

import functools
import types
import typing

import pydantic
import typing_extensions as extensions

ITERABLES = ("Iterable", "Sequence", "List", "list", "SequenceNotStr")


def unwrapped(tp):
    """A type without its annotations: what it is, not how it is validated."""
    while True:
        origin = typing.get_origin(tp)
        if origin is typing.Annotated or origin in (extensions.Required, extensions.NotRequired):
            tp = typing.get_args(tp)[0]
        elif type(origin).__name__ == "TypeAliasType":
            tp = origin.__value__[typing.get_args(tp)]
        elif isinstance(tp, typing.TypeVar):
            tp = typing.Any
        elif isinstance(tp, extensions.TypeAliasType) or type(tp).__name__ == "TypeAliasType":
            tp = tp.__value__
        elif hasattr(tp, "__supertype__"):
            tp = tp.__supertype__
        else:
            return tp


def branches(tp):
    """The alternatives of a union, those of nested unions included; a single type is its only alternative."""
    tp = unwrapped(tp)
    if typing.get_origin(tp) in (typing.Union, types.UnionType):
        found = [each for inner in typing.get_args(tp) for each in branches(inner)]
        # What Mistral's SDK makes of values that it does not know.
        return [each for each in found if not getattr(each, "__name__", "").startswith(("Unrecognized", "Unknown"))] or found
    return [tp]


def is_model(tp):
    return isinstance(tp, type) and issubclass(tp, pydantic.BaseModel)


@functools.cache
def members(tp):
    """The members of a model or typed dictionary by their names on the wire: type, and whether it is required."""
    if is_model(tp):
        tp.model_rebuild()
        named = tp.model_fields.items()
        return {field.serialization_alias or field.alias or name: (field.annotation, field.is_required()) for name, field in named}
    hints = extensions.get_type_hints(tp, include_extras=True)
    return {wire_name(name, hint): (hint, is_required(tp, name, hint)) for name, hint in hints.items()}


def is_required(tp, name, hint):
    """The SDKs' annotations are texts, in which typed dictionaries do not see what is required."""
    origin = typing.get_origin(hint)
    return origin is extensions.Required or (origin is not extensions.NotRequired and name in tp.__required_keys__)


def wire_name(name, hint):
    """The name of a typed dictionary's member: that of its annotation, if it has one."""
    if typing.get_origin(hint) in (extensions.Required, extensions.NotRequired):
        return wire_name(name, typing.get_args(hint)[0])
    aliases = [getattr(note, "alias", None) for note in getattr(hint, "__metadata__", ())]
    # Mistral's typed dictionaries have no aliases.
    return next(filter(None, aliases), "schema" if name == "schema_definition" else name)


def is_object(tp):
    return is_model(tp) or extensions.is_typeddict(tp)


def tag(tp, name):
    """The only values that a member of an object type may have, if it is a literal."""
    hint = members(tp).get(name)
    if hint is None:
        return None
    values = [value for each in branches(hint[0]) for value in typing.get_args(each) if typing.get_origin(each) in LITERALS]
    return values or None


LITERALS = (typing.Literal, extensions.Literal)


def problems(tp, value, path="", open_to_more=False):
    """What is wrong with a value. `open_to_more`: members that no type names are no problem."""
    choices = branches(tp)
    if len(choices) > 1:
        return union(choices, value, path, open_to_more)
    tp = choices[0]
    origin = typing.get_origin(tp)
    if tp in (typing.Any, object) or isinstance(tp, (str, typing.ForwardRef)):
        return []
    if tp is type(None):
        return [] if value is None else [(path, "is not null")]
    if origin in LITERALS:
        allowed = typing.get_args(tp)
        return [] if any(value == each and type(value) is type(each) for each in allowed) else [(path, f"is {short(value)}, none of the literals")]
    if isinstance(tp, type) and issubclass(tp, str):
        enumerated = [each.value for each in tp] if hasattr(tp, "__members__") else None
        if not isinstance(value, str):
            return [(path, f"is no string but {kind(value)}")]
        return [] if enumerated is None or value in enumerated else [(path, f"is {short(value)}, none of the enumeration")]
    if tp is bytes:
        return [] if isinstance(value, str) else [(path, f"is no string but {kind(value)}")]
    if tp is bool:
        return [] if isinstance(value, bool) else [(path, f"is no boolean but {kind(value)}")]
    if tp is int:
        return [] if isinstance(value, int) and not isinstance(value, bool) else [(path, f"is no integer but {kind(value)}")]
    if tp is float:
        return [] if isinstance(value, (int, float)) and not isinstance(value, bool) else [(path, f"is no number but {kind(value)}")]
    if is_object(tp):
        return of_object(tp, value, path, open_to_more)
    if origin is not None and getattr(origin, "__name__", "") in (*ITERABLES, "Iterable"):
        if not isinstance(value, list):
            return [(path, f"is no array but {kind(value)}")]
        inner = typing.get_args(tp)[0]
        return [each for item in value for each in problems(inner, item, path + "[]", open_to_more)]
    if tp is dict or origin in (dict, typing.Mapping) or getattr(origin, "__name__", "") == "Mapping":
        if not isinstance(value, dict):
            return [(path, f"is no object but {kind(value)}")]
        inner = typing.get_args(tp)[1] if typing.get_args(tp) else typing.Any
        return [each for item in value.values() for each in problems(inner, item, path + "{}", open_to_more)]
    return []


def of_object(tp, value, path, open_to_more):
    if not isinstance(value, dict):
        return [(path, f"is no object but {kind(value)}")]
    known = members(tp)
    found = []
    for name, (hint, required) in known.items():
        if name in value:
            found += problems(hint, value[name], f"{path}.{name}", open_to_more)
        elif required:
            found.append((f"{path}.{name}", "is missing"))
    if not open_to_more and not allows_more(tp):
        found += [(f"{path}.{name}", "is in no type") for name in value if name not in known]
    return found


def allows_more(tp):
    """Whether a typed dictionary is open to any member (JSON schemas are). Models are not, whatever they tolerate."""
    return not is_model(tp) and getattr(tp, "__pydantic_config__", {}).get("extra") == "allow"


def union(choices, value, path, open_to_more):
    """The problems of the best alternative: of those with the value's own tag, if there is one."""
    if isinstance(value, dict):
        for name in ("type", "role", "object"):
            if isinstance(value.get(name), str):
                tagged = [each for each in choices if is_object(each) and value[name] in (tag(each, name) or ())]
                if tagged:
                    choices = tagged
                elif any(is_object(each) and tag(each, name) for each in choices) and not any(
                    not is_object(each) or not tag(each, name) for each in choices if each is not type(None)
                ):
                    return [(f"{path}.{name}", f"is {short(value[name])}, none of the alternatives")]
    best = None
    for choice in choices:
        found = problems(choice, value, path, open_to_more)
        if not found:
            return []
        if best is None or rank(found, path) < rank(best, path):
            best = found
    return best or []


def rank(found, path):
    """How far from right: a value of another kind altogether is worse than any number of wrong members."""
    return (any(at == path for at, _ in found), len(found))


def kind(value):
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def short(value):
    return repr(value)[:40]
