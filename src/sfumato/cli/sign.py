"""Sign a release, and make the keys for it."""

from __future__ import annotations

import sys
from datetime import date as Date  # noqa: N812
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import say, show_json
from sfumato.errors import PlanError
from sfumato.storage.opening import read_any_manifest
from sfumato.storage.signing import (
    create_keys,
    get_fingerprint,
    read_private_key,
    sign_release,
)
from sfumato.storage.verifying import require_sound

PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="A file with the passphrase on its first line. Default: you are asked."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: sfumato keygen custodian")(keygen)
    app.command(epilog='Example: sfumato sign release --key custodian.pem --name "A. Novak"')(sign)


def keygen(
    name: Annotated[
        Path, typer.Argument(help="NAME.pem and NAME.public.pem are written; nothing is replaced.")
    ],
    passphrase_file: PassphraseFile = None,
    json: options.Json = False,
) -> None:
    """Make a pair of keys to sign releases with (Ed25519).

    The private key is for you alone, behind a passphrase. Give the public one to those who receive
    your releases, but send it separately from the releases.
    """
    private, public = name.with_name(f"{name.name}.pem"), name.with_name(f"{name.name}.public.pem")
    passphrase = _read_passphrase(passphrase_file, twice=True)
    fingerprint = create_keys(private, public, passphrase)
    if json:
        show_json({"private": str(private), "public": str(public), "fingerprint": fingerprint})
        return
    say(f"Private key: {private} (keep it to yourself)")
    say(f"Public key:  {public} (give it to those who receive your releases)")
    say(f"Fingerprint: {fingerprint}")


def sign(
    release: Annotated[Path, typer.Argument(help="The folder of the release.")],
    key: Annotated[Path, typer.Option(help="Your private key, as `sfumato keygen` made it.")],
    name: Annotated[str, typer.Option(help="Your name, as recipients will see it.")],
    remark: Annotated[str, typer.Option(help="A remark for recipients.")] = "",
    date: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Default: today.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    json: options.Json = False,
) -> None:
    """Sign a release: its data, manifest, reports and custody record as they are now.

    The files are checked first, and a release that was changed is not signed. A second person
    countersigns with the same command and their own key.

    Exit code 4 if the release was changed.
    """
    read_any_manifest(release)
    signer = read_private_key(key, _read_passphrase(passphrase_file))
    require_sound(release)
    day = Date.today() if date is None else date.date()  # noqa: DTZ011
    signature = sign_release(release, signer, signed_by=name, date=day, remark=remark)
    others = len(signature.statement["countersigns"])
    if json:
        show_json({"signature": str(release / signature.file), **signature.statement})
        return
    say(f"Signed:      {release / signature.file}")
    say(f"Fingerprint: {get_fingerprint(signer.public_key())}")
    if others:
        say(f"It countersigns {others} other signature{'s' if others > 1 else ''}.")


def _read_passphrase(file: Path | None, *, twice: bool = False) -> str:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
        except (OSError, UnicodeDecodeError):
            raise PlanError(
                f"The passphrase cannot be read from '{file}'.", hint="is it there, as text?"
            ) from None
    if not sys.stdin.isatty():
        raise PlanError(
            "There is nobody to ask for the passphrase.", hint="pass it with --passphrase-file."
        )
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice))
