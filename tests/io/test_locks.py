"""A lock is held as long as its holder lives, and by nobody else."""

from __future__ import annotations

import pytest

from sfumato.io.locks import hold_lock, hold_new_lock, take_abandoned_lock


def test_a_lock_that_is_held_is_not_abandoned(tmp_path):
    path = tmp_path / "lock"
    with hold_new_lock(path):
        with take_abandoned_lock(path) as is_abandoned:
            assert not is_abandoned
        with pytest.raises(FileExistsError), hold_new_lock(path):
            pass
    assert not path.exists()


def test_a_lock_that_nobody_holds_is_abandoned(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    with take_abandoned_lock(path) as first:
        assert first
        with take_abandoned_lock(path) as second:
            assert not second
    with hold_lock(path), take_abandoned_lock(path) as is_abandoned:
        assert not is_abandoned


def test_what_is_gone_or_a_link_is_not_ours_to_take(tmp_path):
    with take_abandoned_lock(tmp_path / "nothing") as is_abandoned:
        assert not is_abandoned
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with take_abandoned_lock(tmp_path / "link") as is_abandoned:
        assert not is_abandoned
    with pytest.raises(OSError), hold_lock(tmp_path / "link"):  # noqa: PT011 - not followed
        pass


def test_a_lock_taken_for_abandoned_before_it_was_held_is_given_up(tmp_path, monkeypatch):
    from sfumato.io import locks

    path = tmp_path / "lock"
    real = locks._lock

    def lose(handle, *, wait):
        path.unlink()
        real(handle, wait=wait)

    monkeypatch.setattr(locks, "_lock", lose)
    with pytest.raises(FileExistsError), hold_new_lock(path):
        pass
