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
