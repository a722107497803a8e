"""What is left behind when somebody ends the process while files are being written."""

from contextlib import ExitStack
from threading import Event, Thread

from sfumato.io.atomic import FileLog, log_files, note_incomplete


def test_nothing_is_left_of_a_folder_into_which_another_thread_still_writes(tmp_path):
    folder, log, begun = tmp_path / "half", FileLog(), Event()

    def write() -> None:
        with log_files(log), note_incomplete(folder):
            folder.mkdir()
            for number in range(1_000_000):
                if number == 100:
                    begun.set()
                try:
                    (folder / f"{number}").write_bytes(b"some")
                except FileNotFoundError:
                    break  # the folder is gone

    writer = Thread(target=write)
    writer.start()
    begun.wait()
    log.remove_incomplete()
    assert not folder.exists()
    writer.join()
    assert not folder.exists()


def test_what_is_noted_but_not_there_is_no_error_and_what_is_complete_stays(tmp_path):
    log = FileLog()
    kept, half = tmp_path / "kept", tmp_path / "half"
    kept.write_text("whole")
    half.write_text("ha")
    with ExitStack() as stack:
        stack.enter_context(log_files(log))
        for path in (half, tmp_path / "never"):
            stack.enter_context(note_incomplete(path))
        log.remove_incomplete()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
