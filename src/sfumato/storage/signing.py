"""Signatures under a release: who answers for it, checked with a public key.

Question: is this the release that these people signed?
The key of a release authenticates its files to its custodian only, and whoever has it can write
another release. A signature (Ed25519, RFC 8032) is checked by anybody who has the signer's public
key, and nobody can write one without the private key: data, manifest and custody record replaced
together are found out.

What is signed is a statement: who signs, when, a remark, the SHA-256 of every file outside custody
and of the custody record, and of the signatures that were there already. So a second person
countersigns what the first one signed, and a signature cannot be taken away from under another.

Assumes: a public key reached its reader by a way of its own. Whoever can replace that key as well
can sign as somebody else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from sfumato.errors import ReleaseError
from sfumato.io.atomic import PRIVATE, PUBLIC, create_file, write_file
from sfumato.io.json_reader import parse_json
from sfumato.storage.authentication import encode_json, is_as_written
from sfumato.storage.contents import (
    ACCREDITED,
    CUSTODY,
    RECORD_FILE,
    digest_files,
    find_changed_files,
    format_names,
    is_plain_file,
    list_entries,
    sha256,
)

SIGNATURES = "signatures"
_FORMAT = 1
_CONTEXT = b"sfumato release signature 1\n"
"""Put before what is signed: a signature of ours is one of nothing else."""
_NAME = re.compile(rf"{SIGNATURES}/[0-9a-f]{{16}}\.json")
_SHORTEST = 8
"""Characters of a passphrase."""
_LONGEST = 1000
"""Characters of a name or a remark."""
_LARGEST_FILE = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A signature as it lies in a release."""

    file: str
    statement: Mapping[str, Any]
    public_key: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """The key that it claims, in short."""
        return compute_fingerprint(self.public_key)

    def describe(self) -> str:
        """Who signed, when and what they remarked."""
        remark = self.statement["remark"]
        remarking = f", remarking {remark!r}" if remark else ""
        return f"{self.statement['signed_by']!r} on {self.statement['date']}{remarking}"

    def is_genuine(self) -> bool:
        """Whether the holder of the key that it claims signed this statement."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(
                self.signature, _CONTEXT + encode_json(self.statement)
            )
        except (InvalidSignature, ValueError):
            return False
        return True


def create_keys(private: Path, public: Path, passphrase: str) -> str:
    """Write a pair of keys, the private one behind a passphrase, and return its fingerprint.

    Parameters
    ----------
    private : where the private key is written, for its owner only. Nothing may be there.
    public : where the public key is written, for everybody.
    passphrase : without it the private key is of no use.
    """
    if len(passphrase) < _SHORTEST:
        raise ReleaseError(
            f"The passphrase has fewer than {_SHORTEST} characters.",
            hint="use a sentence that nobody else would say.",
        )
    for path in (private, public):
        if path.exists() or path.is_symlink():
            raise ReleaseError(
                f"'{path}' exists already, and no key is overwritten.", hint="choose another name."
            )
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode())
    )
    try:
        create_file(private, secret, mode=PRIVATE)
        create_file(public, _encode_public(key.public_key()), mode=PUBLIC)
    except OSError as error:
        raise ReleaseError(
            f"The keys cannot be written to '{private.parent}'.",
            hint="create the folder first, or choose another.",
        ) from error
    return compute_fingerprint(_get_raw(key.public_key()))


def read_private_key(path: Path, passphrase: str) -> Ed25519PrivateKey:
    """The private key in a file."""
    try:
        key = load_pem_private_key(_read_small(path), passphrase.encode())
    except TypeError:
        raise ReleaseError(
            f"The key in '{path}' lies there without a passphrase.",
            hint="make a new pair with `sfumato keygen`.",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ReleaseError(
            f"The key in '{path}' cannot be opened: the passphrase is wrong, or it is no key.",
            hint="a private key is made by `sfumato keygen`.",
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ReleaseError(
            f"The key in '{path}' is of another kind than Ed25519.",
            hint="make a pair with `sfumato keygen`.",
        )
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a file."""
    try:
        key = load_pem_public_key(_read_small(path))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ReleaseError(
            f"'{path}' is no public key of Ed25519.",
            hint="pass the .public.pem file that the signer gave you, never the private key.",
        )
    return key


def compute_fingerprint(public_key: bytes) -> str:
    """The first 16 digits of a public key's SHA-256: short enough to be read out on the phone.

    Examples
    --------
    >>> compute_fingerprint(bytes(32))
    '66687aadf862bd77'
    """
    return hashlib.sha256(public_key).hexdigest()[:16]


def get_fingerprint(key: Ed25519PublicKey) -> str:
    """The fingerprint of a public key."""
    return compute_fingerprint(_get_raw(key))


def sign_release(
    folder: Path, key: Ed25519PrivateKey, *, signed_by: str, date: Date, remark: str = ""
) -> Signature:
    """Sign a release as it lies in its folder, and put the signature there.

    Assumes: its files were verified.

    Parameters
    ----------
    folder : the release, with its custody record or without.
    key : of the signer.
    signed_by : the signer's name, as it shall be read. It is public.
    date : of the signature.
    remark : anything that the signer wants to be read with it. It is public.
    """
    for name, text in (("name", signed_by), ("remark", remark)):
        if len(text) > _LONGEST or not text.isprintable():
            raise ReleaseError(
                f"The {name} is longer than {_LONGEST} characters, or has some that cannot be "
                "printed.",
                hint="write it on one line.",
            )
    if not signed_by.strip():
        raise ReleaseError("Nobody is named as the signer.", hint="say who signs: --name.")
    raw = _get_raw(key.public_key())
    file = f"{SIGNATURES}/{compute_fingerprint(raw)}.json"
    if file in list_signature_files(folder):
        raise ReleaseError(
            "This release has a signature of this key already.",
            hint=f"remove '{file}' first if you want to sign it again.",
        )
    digests = digest_files(folder)
    record = folder / RECORD_FILE
    statement: dict[str, Any] = {
        "format": _FORMAT,
        "signed_by": signed_by,
        "date": date.isoformat(),
        "remark": remark,
        "public_key": raw.hex(),
        "files": {name: digest for name, digest in digests.items() if not _is_apart(name)},
        "custody_sha256": sha256(record) if is_plain_file(record) else None,
        "countersigns": {name: digests[name] for name in list_signature_files(folder)},
    }
    signature = key.sign(_CONTEXT + encode_json(statement))
    (folder / SIGNATURES).mkdir(mode=0o755, exist_ok=True)
    write_file(folder / file, encode_json({**statement, "signature": signature.hex()}), mode=PUBLIC)
    return Signature(file=file, statement=statement, public_key=raw, signature=signature)


def list_signature_files(folder: Path) -> list[str]:
    """The files of a release that are called as signatures are."""
    return [name for name in list_entries(folder) if _NAME.fullmatch(name)]


def read_signature(folder: Path, file: str) -> Signature | None:
    """A signature of a release; None where the file holds nothing of the kind."""
    raw = _read_small(folder / file) if is_plain_file(folder / file) else b""
    try:
        content = parse_json(raw)
        statement = {name: value for name, value in content.items() if name != "signature"}
        signature = Signature(
            file=file,
            statement=statement,
            public_key=bytes.fromhex(statement["public_key"]),
            signature=bytes.fromhex(content["signature"]),
        )
        texts = [statement[name] for name in ("signed_by", "date", "remark")]
        wellformed = (
            statement["format"] == _FORMAT
            and all(isinstance(text, str) and text.isprintable() for text in texts)
            and all(isinstance(statement[name], dict) for name in ("files", "countersigns"))
            and file == f"{SIGNATURES}/{signature.fingerprint}.json"
            and is_as_written(raw, content)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return signature if wellformed else None


def find_differences(folder: Path, signature: Signature) -> list[str]:
    """What in a release is not what was signed: changed, missing or added since.

    The custody record and the manifest for accredited analysts may be away, as they are from the
    copy that a recipient has. Where they are there, they must be those that were signed.
    """
    files = {str(name): str(digest) for name, digest in signature.statement["files"].items()}
    here = [name for name in list_entries(folder) if not _is_apart(name)]
    changed = [
        name
        for name in find_changed_files(folder, files)
        if name in here or not name.startswith(f"{ACCREDITED}/")
    ]
    folders = {name.rpartition("/")[0] for name in files}
    changed += [name for name in here if name not in files and name not in folders]
    record = signature.statement["custody_sha256"]
    if (folder / CUSTODY).is_dir() and record is not None:
        changed += find_changed_files(folder, {RECORD_FILE: str(record)})
    countersigned = signature.statement["countersigns"]
    return changed + find_changed_files(
        folder, {str(name): str(digest) for name, digest in countersigned.items()}
    )


def judge_signatures(
    folder: Path, signers: Sequence[Ed25519PublicKey] = ()
) -> list[tuple[bool | None, str]]:
    """What can be said of each signature, and of each signer who should have signed.

    Parameters
    ----------
    folder : the release.
    signers : public keys whose holders must have signed it.
    """
    trusted = {_get_raw(signer): get_fingerprint(signer) for signer in signers}
    findings: list[tuple[bool | None, str]] = []
    for file in list_signature_files(folder):
        signature = read_signature(folder, file)
        if signature is None or not signature.is_genuine():
            findings.append((False, f"{file} is no signature, or it was changed"))
            continue
        who = f"by {signature.describe()}, key {signature.fingerprint}"
        if changed := find_differences(folder, signature):
            findings.append((False, f"signed {who}; since then changed: {format_names(changed)}"))
        elif signature.public_key in trusted:
            findings.append((True, f"signed {who}"))
        else:
            findings.append(
                (None, f"signed {who}, which you did not name: pass the public key as --signer")
            )
        trusted.pop(signature.public_key, None)
    findings += [
        (False, f"the holder of key {fingerprint} has not signed this release")
        for fingerprint in trusted.values()
    ]
    return findings


def _is_apart(name: str) -> bool:
    """Whether a file is told of in a signature by itself, or not at all."""
    return name.partition("/")[0] in (CUSTODY, SIGNATURES)


def _read_small(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ReleaseError(f"'{path}' is too large for a key or a signature.")
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"'{path}' cannot be read.", hint="is it there?") from error


def _get_raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _encode_public(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
