"""Memory of which certificates an authority has issued and the rules allow, so that neither is found out twice.

Both follow from the bytes of the two certificates alone, for ever. What changes with time is checked each time: dates
and the list of revoked certificates.
"""

import hashlib

SECRET_BYTES = 32
DIGEST_BYTES = 16
BUCKET = 8
"""Places among which a certificate has one."""

MAX_CERTIFICATES = 1 << 21
"""Most that are remembered: twice as many as a batch can have devices, in 32 MiB."""


class PassedCertificates:
    """Remembers a bounded number of certificates by a digest under a secret key.

    So nobody else can look for two certificates of one digest. Where there is no place left, one that was remembered
    has to be checked again. May be used by several threads.

    Args:
        secret: `SECRET_BYTES` fresh random bytes.
        most: how many certificates, at most.
    """

    def __init__(self, secret: bytes, most: int = MAX_CERTIFICATES) -> None:
        self._secret = secret
        self._n_buckets = max(1, most // BUCKET)
        self._places = bytearray(self._n_buckets * BUCKET * DIGEST_BYTES)

    def has(self, certificate: bytes, authority: bytes) -> bool:
        """Return whether a certificate has passed, as one of an authority; both as bytes that never change."""
        digest, start = self._digest(certificate, authority)
        return digest in self._bucket(start)

    def add(self, certificate: bytes, authority: bytes) -> None:
        """Remember that it has passed."""
        digest, start = self._digest(certificate, authority)
        held = self._bucket(start)
        if digest in held:
            return
        empty = bytes(DIGEST_BYTES)
        place = held.index(empty) if empty in held else digest[-1] % BUCKET
        at = start + place * DIGEST_BYTES
        self._places[at : at + DIGEST_BYTES] = digest

    def _digest(self, certificate: bytes, authority: bytes) -> tuple[bytes, int]:
        """Return the digest, and where its bucket starts."""
        keyed = hashlib.blake2b(hashlib.sha256(authority).digest(), digest_size=DIGEST_BYTES, key=self._secret)
        keyed.update(certificate)
        digest = keyed.digest()
        bucket = int.from_bytes(digest[:8]) % self._n_buckets
        return digest, bucket * BUCKET * DIGEST_BYTES

    def _bucket(self, start: int) -> list[bytes]:
        held = bytes(self._places[start : start + BUCKET * DIGEST_BYTES])
        return [held[at : at + DIGEST_BYTES] for at in range(0, len(held), DIGEST_BYTES)]

    def __repr__(self) -> str:
        return "PassedCertificates()"
