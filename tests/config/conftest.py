"""Stores on disk, of every kind that Java writes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    """Tests are no package (importmode=importlib): the maker of certificates is loaded by its path."""
    path = Path(__file__).with_name("_certificates.py")
    spec = importlib.util.spec_from_file_location("config_certificates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def certificates() -> ModuleType:
    """Keys, certificates and stores for tests."""
    return _load()
