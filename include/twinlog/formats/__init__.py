"""Bytes of every internal record, one file per record: a frozen dataclass with its key and value codecs."""
