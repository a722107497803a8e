"""The public data of the papers: from a folder, or downloaded; checked either way."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sfumato.errors import DataError

DIGESTS = {
    "adult.csv": "3da93a34f071ce9375e859374e41a99e7d84b9adeaafba0ba19e8a5bb03ed6a5",
    "cervical.csv": "b38b6b149226019af6d44fa300792fd4b321a50f55a46aec692dbfbdf0288db4",
    "diabetes.csv": "95806c2f7cb5439238ee1214a8e383301ab5a72e8fc786b79304da562276b9aa",
    "exam.csv": "dc599b3dcab6c7fe3693219fd9a742ed156ac20b0992690d71050b9369c50926",
    "titanic.csv": "8331e5a2532f5fdb66153a8fc053df08a7dc9d2584f246c7fb1752f0a7139ca5",
    "visual.csv": "b66ab088501b6a654263654abbf601940f9663a422d3f03a368449385a51f203",
}
"""SHA-256 of the files that the numbers in the docs were computed from."""


@dataclass(frozen=True)
class Sources:
    """Where the data files lie."""

    folder: Path | None

    @classmethod
    def locate(cls, folder: str | Path | None = None) -> Sources:
        """The folder given, or that of the variable SFUMATO_DATA; none is no error yet."""
        named = folder or os.environ.get("SFUMATO_DATA")
        if named is None:
            return cls(None)
        path = Path(named)
        if not path.is_dir():
            raise DataError(
                f"There is no folder '{path}'.", hint="name the folder of the data: --data FOLDER."
            )
        return cls(path)

    @classmethod
    def download(cls, address: str, *, into: str | Path) -> Sources:
        """Every file from a web folder, checked against our digests (needs pooch)."""
        try:
            import pooch
        except ImportError:
            raise DataError(
                "Downloading needs the library pooch.",
                hint="`make setup` installs it; or put the files into a folder yourself.",
            ) from None
        base = address if address.endswith("/") else f"{address}/"
        hashes = {name: f"sha256:{digest}" for name, digest in DIGESTS.items()}
        store = pooch.create(path=into, base_url=base, registry=hashes)
        for name in hashes:
            try:
                store.fetch(name)
            except (OSError, ValueError) as error:
                raise DataError(
                    f"'{name}' could not be had from there, or is not the file it should be.",
                    hint=f"{type(error).__name__}; the data are also taken from --data FOLDER.",
                ) from None
        return cls(Path(into))

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return self.folder is not None and (self.folder / name).is_file()

    def read(self, name: str) -> pl.DataFrame:
        """A file, once it is known to be the one that the papers' numbers belong to."""
        if self.folder is None or not self.has(name):
            raise DataError(
                f"The file '{name}' is not there.",
                hint="set SFUMATO_DATA to the folder of the data, or say --data FOLDER.",
            )
        data = (self.folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != DIGESTS[name]:
            raise DataError(
                f"'{name}' is not the file that the published numbers belong to.",
                hint="its SHA-256 differs; other line ends or other records do that.",
            )
        return pl.read_csv(data)

    def find_reference(self, name: str) -> Path | None:
        """A file of the folder `reference` next to the data, where somebody has it."""
        if self.folder is None:
            return None
        path = self.folder.parent / "reference" / name
        return path if path.is_file() else None
