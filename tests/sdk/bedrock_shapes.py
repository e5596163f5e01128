"""Judges the body of Bedrock's Converse by the service model that botocore ships."""

import re

import botocore.session
import botocore.validate

MODEL = botocore.session.get_session().get_service_model("bedrock-runtime")
CONVERSE = MODEL.operation_model("Converse").input_shape


def problems(body, model):
    """What the service would refuse: unknown members, wrong types, bounds, unions, enumerations, patterns."""
    body = {"modelId": model, **body}
    report = botocore.validate.ParamValidator().validate(body, CONVERSE)
    found = [("", re.sub(r"\[\d+\]", "[]", line)) for line in report.generate_report().splitlines() if report.has_errors()]
    return found or of_shape(CONVERSE, body, "")


def of_shape(shape, value, path):
    """What botocore's own validator leaves to the service."""
    kind = shape.type_name
    if kind == "structure":
        if getattr(shape, "is_document_type", False):
            return []
        found = [(f"{path}.{name}", "is in no shape") for name in value if name not in shape.members]
        inner = ((name, member) for name, member in value.items() if name in shape.members)
        return found + [each for name, member in inner for each in of_shape(shape.members[name], member, f"{path}.{name}")]
    if kind == "list":
        found = bounds(shape, len(value), path)
        return found + [each for item in value for each in of_shape(shape.member, item, path + "[]")]
    if kind == "map":
        return [each for item in value.values() for each in of_shape(shape.value, item, path + "{}")]
    if kind == "string":
        found = bounds(shape, len(value), path)
        if shape.enum and value not in shape.enum:
            found.append((path, f"is {value!r}, none of the enumeration"))
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(pattern, value):
            found.append((path, f"does not match {pattern}"))
        return found
    return bounds(shape, value, path) if kind in ("integer", "float", "double", "long") else []


def bounds(shape, value, path):
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    wrong = (low is not None and value < low) or (high is not None and value > high)
    return [(path, f"is not within {low} and {high}")] if wrong else []


def responses():
    """Responses of Converse with every documented member and value, each with what it is about."""
    text = {"message": {"role": "assistant", "content": [{"text": "Hello."}]}}
    usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
    base = {"output": text, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    shape = MODEL.operation_model("Converse").output_shape
    yield "", base
    for name, member in shape.members.items():
        for label, value in values(member, 7 if name == "output" else 3):
            yield f"{name}{label}", {**base, name: value}


def values(shape, depth):
    """Pairs of a label and a value, as in type_values."""
    kind = shape.type_name
    if getattr(shape, "is_document_type", False):
        yield "", {"city": "Paris"}
    elif kind == "structure":
        required = {name: next(values(shape.members[name], 0))[1] for name in shape.required_members}
        if shape.is_tagged_union:
            required = {}
            if depth <= 0:
                name, member = next(iter(shape.members.items()))
                yield f".{name}", {name: next(values(member, 0))[1]}
                return
        else:
            yield "", required
        for name, member in shape.members.items() if depth > 0 else ():
            for label, value in values(member, depth - 1):
                yield f".{name}{label}", {**required, name: value}
    elif kind == "list":
        for label, value in values(shape.member, depth - 1):
            yield "[]" + label, [value]
            if depth <= 0:
                return
    elif kind == "map":
        yield "", {"key": next(values(shape.value, 0))[1]}
    elif kind == "string":
        for value in shape.enum or ["some text"]:
            yield f"={value}", value
    elif kind == "blob":
        yield "", "c29tZSB0ZXh0"
    else:
        yield "", {"boolean": True, "timestamp": 1}.get(kind, 1)
