"""The model's answer: JSON text of a fixed shape, read with patience and checked with pydantic."""

from __future__ import annotations

import json
import re

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MAX_ANSWER = 64_000
"""Characters that are read; an honest answer has a tenth of that."""

_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


class Claim(BaseModel):
    """One sentence with the ids it stands on."""

    model_config = ConfigDict(extra="ignore")

    text: str
    evidence: list[str] = Field(default_factory=list, max_length=40)


class Answer(BaseModel):
    """``questions`` is what the model would like to know; nothing shows it yet."""

    model_config = ConfigDict(extra="ignore")

    claims: list[Claim] = Field(max_length=100)
    questions: list[str] = Field(default_factory=list, max_length=100)


def read_answer(text: str) -> Answer:
    """Parse an answer; thoughts before it, a code fence around it and words around the object are forgiven.

    Raises:
        ValueError: it holds no JSON object of the right shape; the message says what is wrong, without the text.
    """
    text = _THOUGHTS.sub("", text[:MAX_ANSWER])
    if fenced := _FENCE.match(text):
        text = fenced[1]
    start = text.find("{")
    if start < 0:
        raise ValueError("there is no JSON object in it")
    try:
        data, _ = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise ValueError(f"the JSON is not valid: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    try:
        return Answer.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"the JSON has the wrong shape at {where or 'the top'}: {first['type']}") from None
