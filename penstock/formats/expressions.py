"""Messages decoded by Spark's own expressions, which a query on a stream itself needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.formats.frames import broken_rule, raising
from penstock.formats.lines.messages import VALUE
from penstock.formats.records import PAYLOAD_LIMIT, REJECTED
from penstock.schema import Column, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

BAD = "\x01bad"
"""The field of a record that is not null when the record is bad."""
_RECORDS, _RECORD, _ERROR = "\x01records", "\x01record", "\x01error"


def text() -> Expression:
    """The message as text."""
    from pyspark.sql import functions as f

    return f.col(VALUE).cast("string")


def not_utf8() -> Expression:
    """What is wrong with a message that is no text."""
    from pyspark.sql import functions as f

    return f.when(~f.is_valid_utf8(f.col(VALUE)), f.lit("not UTF-8"))


def rows(
    frame: DataFrame,
    used: Sequence[Column],
    request: Any,
    records: Expression,
    problem: Expression,
    *,
    carried: Sequence[str] = (),
    place: Sequence[str] = (),
) -> DataFrame:
    """`Format.decode`, by an array of the `records` of a message, and the `problem` it may have as a whole.

    A record is a struct of the used columns, and of `BAD`. One bad record makes all of its message bad.
    """
    from pyspark.sql import functions as f

    judged = _judged(frame, used, records, problem, (*carried, *place))
    if request.on_error == "fail":
        told = [f.concat(f.lit(f"{name.lstrip('_')} "), f.col(quoted(name)).cast("string")) for name in place]
        where = f.concat_ws(", ", *told) if told else f.lit("a message")
        payload = f.substring(_payload(), 1, PAYLOAD_LIMIT).alias("payload")
        judged = judged.where(raising(f.col(_ERROR), payload, where.alias("file")))
    nothing = _no_record(judged)
    each = f.explode(f.when(f.col(_ERROR).isNull(), f.col(_RECORDS)).otherwise(nothing)).alias(_RECORD)
    kept = [f.col(quoted(name)) for name in carried]
    exploded = judged.select(each, *kept, f.col(_ERROR))
    columns = [f.col(_RECORD).getField(c.name).alias(c.name) for c in used]
    if request.on_error != "fail":
        kept.append(f.col(_ERROR).isNotNull().alias(REJECTED))
    return exploded.select(*columns, *kept)


def rejects(
    frame: DataFrame,
    used: Sequence[Column],
    records: Expression,
    problem: Expression,
    *,
    carried: Sequence[str] = (),
) -> DataFrame:
    """`Format.decode_rejects`, by the same."""
    from pyspark.sql import functions as f

    bad = _judged(frame, used, records, problem, carried).where(f.col(_ERROR).isNotNull())
    encoding = f.when(not_utf8().isNull(), f.lit("text")).otherwise(f.lit("base64"))
    return bad.select(
        _payload().alias("payload"),
        encoding.alias("encoding"),
        f.col(_ERROR).alias("error"),
        *(f.col(quoted(name)) for name in carried),
    )


def _judged(
    frame: DataFrame,
    used: Sequence[Column],
    records: Expression,
    problem: Expression,
    more: Sequence[str],
) -> DataFrame:
    """The messages with their records, and what is wrong with them."""
    from pyspark.sql import functions as f

    kept = [f.col(quoted(name)) for name in dict.fromkeys((VALUE, *more))]
    empty = f.col(VALUE).isNull()
    parsed = frame.select(*kept, records.alias(_RECORDS))
    # A message without a value is a row of nulls.
    found = f.when(empty, _no_record(parsed)).otherwise(f.col(_RECORDS))
    parsed = parsed.select(*kept, found.alias(_RECORDS))
    bad = f.col(_RECORDS).isNull() | f.exists(_RECORDS, lambda r: r.isNull() | r.getField(BAD).isNotNull())
    error = f.when(
        ~empty, f.coalesce(problem, f.when(bad, f.lit("not of the format, or of the columns' types")))
    )
    if broken_rule(used) is not None:
        broken = f.transform(_RECORDS, lambda r: broken_rule(used, r))  # type: ignore[arg-type, return-value]
        error = f.coalesce(error, f.get(f.filter(broken, lambda e: e.isNotNull()), f.lit(0)))
    return parsed.select(*kept, f.col(_RECORDS), error.alias(_ERROR))


def _no_record(frame: DataFrame) -> Expression:
    """One record without values."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType

    kind = frame.schema[_RECORDS].dataType
    assert isinstance(kind, ArrayType)
    return f.array(f.lit(None).cast(kind.elementType))


def _payload() -> Expression:
    from pyspark.sql import functions as f

    return f.when(not_utf8().isNull(), text()).otherwise(f.base64(f.col(VALUE)))
