"""A test process must not run out of memory maps; conftest.py counts them after every module."""

import gc
import mmap

import pytest

from tests import memory_maps


def test_a_map_is_counted():
    gc.collect()  # What other tests compiled is not released in the meantime.
    before = memory_maps.used()
    if before is None:
        pytest.skip("this system does not list the memory maps of a process")
    assert memory_maps.allowed() > 1000
    # Neighbours that are alike become one map, so these are not alike.
    made = [mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | (i % 2 * mmap.PROT_WRITE)) for i in range(64)]
    assert memory_maps.used() >= before + 32
    for one in made:
        one.close()


def test_more_than_half_is_too_many():
    assert memory_maps.complaint(32765, 65530) is None
    assert memory_maps.complaint(32766, 65530).startswith("32766 memory maps are in use, more than half of the 65530")


def test_no_list_is_no_count(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_maps, "PROCESS", tmp_path / "maps")
    assert memory_maps.used() is None
