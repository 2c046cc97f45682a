"""TensorFlow's record files and Example messages, read and written without TensorFlow.

In: bytes. Out: `Features`, a dict from a feature's name to its values: a list of bytes, an int64 or a float32 array.

A TFRecord file is a sequence of `length (uint64), masked CRC-32C of the length, data, masked CRC-32C of the data`, all
little-endian, often inside gzip (TensorFlow's `tfrecord` guide). The data are a `tf.train.Example`: protocol buffer
messages of three levels (example.proto and feature.proto in TensorFlow's core): Example {1: Features {1: map entry {1:
name, 2: Feature {1: bytes, 2: floats, 3: int64s}}}}.
"""

from __future__ import annotations

import functools
import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

Values = list[bytes] | np.ndarray
Features = dict[str, Values]
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_LANES = 1024
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class RecordError(ValueError):
    """A record that is cut short, changed, or no Example."""


# --- Example ---------------------------------------------------------------------------------------------------------
def decode(data: bytes | memoryview) -> Features:
    """The features of a serialised Example. Raises RecordError where it is none."""
    found: Features = {}
    try:
        for number, features in _fields(memoryview(data)):
            for inner, entry in _fields(features) if number == 1 else ():
                if inner == 1:
                    parts = dict(_fields(entry))
                    found[bytes(parts[1]).decode()] = _values(parts.get(2, memoryview(b"")))
    except RecordError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, struct.error) as error:
        raise RecordError(f"not a tf.train.Example: {error!r}") from error
    return found


def encode(features: Mapping[str, Values | Sequence[int] | Sequence[float]]) -> bytes:
    """A serialised Example; integer arrays become int64 lists, floating ones float32 lists."""
    entries = []
    for name in sorted(features):
        values = features[name]
        if isinstance(values, list) and (not values or isinstance(values[0], bytes)):
            feature = _field(1, b"".join(_field(1, value) for value in values))
        else:
            array = np.asarray(values)
            if np.issubdtype(array.dtype, np.integer):
                packed = b"".join(_varint(int(value) & (2**64 - 1)) for value in array.ravel())
                feature = _field(3, _field(1, packed))
            else:
                feature = _field(2, _field(1, array.astype("<f4").tobytes()))
        entries.append(_field(1, _field(1, name.encode()) + _field(2, feature)))
    return _field(1, b"".join(entries))


def _values(feature: memoryview) -> Values:
    for kind, listed in _fields(feature):
        items = [value for number, value in _fields(listed) if number == 1]
        if kind == 1:
            return [bytes(item) for item in items]
        if kind == 2:
            return np.concatenate([np.frombuffer(item, "<f4") for item in items] or [np.zeros(0, np.float32)])
        if kind == 3:
            loose = [np.array([item], np.int64) if isinstance(item, int) else varints(item) for item in items]
            return np.concatenate(loose or [np.zeros(0, np.int64)])
    return []


def varints(data: bytes | memoryview) -> np.ndarray:
    """A packed list of variable-length integers as int64 `[N]`."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 128)
    if not raw.size:
        return np.zeros(0, np.int64)
    if not ends.size or ends[-1] != raw.size - 1:
        raise RecordError("a list of integers is cut short")
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(raw.size) - np.repeat(starts, ends - starts + 1)
    if place.max() > 9:
        raise RecordError("an integer of more than ten bytes")
    bits = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(bits, starts).view(np.int64)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """(field number, content) of a message, in order."""
    at, size = 0, len(message)
    while at < size:
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise RecordError(f"unknown wire type {kind}")
        if at + length > size:
            raise RecordError(f"a field of {length} bytes where {size - at} are left")
        yield key >> 3, message[at : at + length]
        at += length


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise RecordError("an integer of more than ten bytes")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


# --- TFRecord --------------------------------------------------------------------------------------------------------
def read_records(path: str | Path) -> Iterator[bytes]:
    """The records of a TFRecord file, gzip or not, both checksums of each verified.

    Raises RecordError, with the file and the record's number, where the file is cut short or changed: what came before
    it has been given already.
    """
    with open(path, "rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if zipped else raw
        number = 0
        while True:
            try:
                head = stream.read(12)
                if not head:
                    return
                length = struct.unpack("<Q", head[:8])[0]
                if struct.unpack("<I", head[8:])[0] != masked_crc(head[:8]):
                    raise RecordError("the checksum of its length does not fit")
                data = stream.read(length)
                tail = stream.read(4)
                if len(data) != length or struct.unpack("<I", tail)[0] != masked_crc(data):
                    raise RecordError("the checksum of its data does not fit")
            except (RecordError, struct.error, EOFError, OSError, zlib.error) as error:
                raise RecordError(f"{path}: record {number}: {error}; fetch the file again") from error
            yield data
            number += 1


def framed(data: bytes) -> bytes:
    """A record as it stands in a TFRecord file."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))


def masked_crc(data: bytes) -> int:
    """TFRecord's checksum: CRC-32C, rotated right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli). Long data are cut into lanes, whose remainders are found side by side and then joined."""
    size = len(data) // _LANES
    crc = np.uint32(0xFFFFFFFF)
    done = 0
    if size >= 16:
        lanes = np.frombuffer(data, np.uint8, size * _LANES).reshape(_LANES, size)
        table = _table()
        remainder = np.zeros(_LANES, np.uint32)
        remainder[0] = crc
        for column in np.ascontiguousarray(lanes.T):
            remainder = table[(remainder ^ column) & 0xFF] ^ (remainder >> np.uint32(8))
        advance = _advance(size)
        value = 0
        for lane in remainder.tolist():
            value = lane ^ (
                advance[0][value & 255]
                ^ advance[1][value >> 8 & 255]
                ^ advance[2][value >> 16 & 255]
                ^ advance[3][value >> 24]
            )
        crc, done = value, size * _LANES
    table = _table().tolist()
    value = int(crc)
    for byte in data[done:]:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


@functools.cache
def _table() -> np.ndarray:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(_POLYNOMIAL), values >> 1).astype(np.uint32)
    return values


@functools.lru_cache(maxsize=64)
def _advance(count: int) -> list[list[int]]:
    """Four tables, one for each byte of a remainder, that move it past `count` zero bytes.

    Moving is linear: the columns of the matrix of one byte, squared as often as `count` has bits.
    """

    def apply(columns: list[int], value: int) -> int:
        out = 0
        for bit in range(32):
            if value >> bit & 1:
                out ^= columns[bit]
        return out

    table = _table().tolist()
    power = [table[1 << bit & 0xFF] ^ (1 << bit >> 8) for bit in range(32)]
    moved = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            moved = [apply(power, column) for column in moved]
        power = [apply(power, column) for column in power]
        count >>= 1
    return [[apply(moved, byte << 8 * place) for byte in range(256)] for place in range(4)]
