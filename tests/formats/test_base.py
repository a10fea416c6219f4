from __future__ import annotations

from penstock.formats.base import PAYLOAD_LIMIT, BadRecord, bad_record


def test_a_bad_record_is_found_in_the_text_of_a_failure() -> None:
    record = BadRecord('é {"a": 1', "not JSON", "/x.json", 7)
    failure = f"Job aborted: Traceback\n  x: {record}\n\tat org.apache"
    assert bad_record(failure) == {"payload": 'é {"a": 1', "error": "not JSON", "file": "/x.json", "line": 7}


def test_a_long_payload_is_cut() -> None:
    record = bad_record(str(BadRecord("x" * 5000, "e", None, None)))
    assert record is not None
    assert record["payload"] == "x" * PAYLOAD_LIMIT


def test_other_failures_tell_of_no_record() -> None:
    assert bad_record("java.lang.Exception: no space left") is None
    assert bad_record("PENSTOCK-BAD-RECORD cut off {") is None
