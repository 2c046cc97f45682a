"""Example messages and record files against published check values and the protobuf library's own encoder."""

import gzip
import struct

import numpy as np
import pytest
from tensorflow_datasets.core import example_serializer
from tensorflow_datasets.core.features import TensorInfo

from gui_rl.data.example import RecordError, crc32c, decode, encode, framed, masked_crc, read_records, varints


def bitwise(data):
    """CRC-32C bit by bit, as it is defined."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "value"),  # RFC 3720, appendix B.4
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_checksums_of_the_standard(data, value):
    assert crc32c(data) == value


@pytest.mark.parametrize("size", [0, 1, 1023, 16384, 16385, 40_000])
def test_long_checksums_bit_by_bit(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c(data) == bitwise(data)


def test_the_library_s_messages_are_read():
    """TFDS serialises with the protobuf runtime."""
    random = np.random.default_rng(0)
    values = {
        "names": [b"a", b"", "\u2603".encode()],
        "numbers": random.integers(-(2**62), 2**62, 50),
        "floats": random.normal(size=7).astype(np.float32),
        "none": np.zeros(0, np.int64),
    }
    infos = {
        "names": TensorInfo(shape=(None,), dtype=np.object_),
        "numbers": TensorInfo(shape=(None,), dtype=np.int64),
        "floats": TensorInfo(shape=(None,), dtype=np.float32),
        "none": TensorInfo(shape=(None,), dtype=np.int64),
    }
    found = decode(example_serializer.ExampleSerializer(infos).serialize_example(values))
    assert found["names"] == values["names"]
    np.testing.assert_array_equal(found["numbers"], values["numbers"])
    np.testing.assert_array_equal(found["floats"], values["floats"])
    assert len(found["none"]) == 0
    again = decode(encode(values))
    np.testing.assert_array_equal(again["numbers"], values["numbers"])
    assert again["names"] == values["names"]


def test_integers_of_every_length():
    numbers = [0, 1, 127, 128, 2**14, 2**35, 2**63 - 1, -1, -(2**63)]
    np.testing.assert_array_equal(decode(encode({"n": np.array(numbers)}))["n"], numbers)
    with pytest.raises(RecordError, match="cut short"):
        varints(b"\x80")


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x0a\x05ab", b"\x0b", b"hello world", b"\x0a\x03\x0a\x01\x0f"])
def test_what_is_no_message_is_a_named_error(data):
    with pytest.raises(RecordError):
        decode(data)


def test_record_files(tmp_path):
    records = [b"", b"first", bytes(70_000), encode({"goal": [b"x"]})]
    plain, zipped = tmp_path / "plain", tmp_path / "zipped"
    content = b"".join(map(framed, records))
    plain.write_bytes(content)
    zipped.write_bytes(gzip.compress(content))
    assert list(read_records(plain)) == records == list(read_records(zipped))


def test_a_changed_or_short_file_gives_what_came_before_and_a_named_error(tmp_path):
    path, content = tmp_path / "records", framed(b"one") + framed(b"two" * 9)
    for broken in (
        content[:-1],
        content[:25],
        content[:-8] + b"x" + content[-7:],
        content[:19] + b"\x09" + content[20:],
    ):
        path.write_bytes(broken)
        found = read_records(path)
        assert next(found) == b"one"
        with pytest.raises(RecordError, match="records: record 1"):
            next(found)
    path.write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(RecordError, match="record"):
        list(read_records(path))


def test_masking():
    value = crc32c(b"abc")
    rotated = (value >> 15) | (value << 17 & 0xFFFFFFFF)
    assert masked_crc(b"abc") == (rotated + 0xA282EAD8) % 2**32
    assert struct.unpack("<I", framed(b"abc")[-4:])[0] == masked_crc(b"abc")
