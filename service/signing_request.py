"""Signing requests: how a member gets a certificate while its private key never leaves its host.

The member makes the key and a request that states its identity, signed by that key. The authority certifies what the
request says if the fingerprint that the member tells it over another channel is that of the request: a request alone
proves only that somebody has the key.
"""

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.certificate_rules import read_as
from service.identity import Identity
from service.pki import KeyPair, certify, federation_of, private_pem, read_pair

FINGERPRINT_BYTES = 16
"""Bytes of SHA-256 in a fingerprint. To pass another request for a given one, an attacker must find a second preimage
of 128 bits."""


@dataclass(frozen=True)
class SigningRequest:
    """A request whose signature is right.

    Attributes:
        identity: identity that the certificate shall state.
        public_key: public key of the member.
    """

    identity: Identity
    public_key: ec.EllipticCurvePublicKey

    @property
    def fingerprint(self) -> str:
        """Digits of the identity and the public key, to read aloud: eight groups of four, hexadecimal."""
        key = self.public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        digits = hashlib.sha256(self.identity.uri.encode() + b"\0" + key).hexdigest()[: 2 * FINGERPRINT_BYTES]
        return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def create_request(identity: Identity) -> KeyPair:
    """Make a fresh key and a request for a certificate of it.

    Returns:
        The request, PEM, in place of the certificate; and the key.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.uri)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(request.public_bytes(serialization.Encoding.PEM), private_pem(key))


def read_request(pem: bytes) -> SigningRequest:
    """Read a request and check that who made it has the key.

    Raises:
        ValueError: it cannot be read, its signature is wrong, its key is not on P-256, or it does not state exactly one
            identity; the text says which.
    """
    with read_as("the file is not a signing request, which `moiety pki request` makes, or is damaged"):
        request = x509.load_pem_x509_csr(pem)
        is_signed = request.is_signature_valid
        key = request.public_key()
        extensions = list(request.extensions)
    if not is_signed:
        raise ValueError("the signature of the request is wrong: it was changed, or its maker does not have the key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(
            "the key of the request is not an elliptic curve key on P-256; make one with `moiety pki request`"
        )
    return SigningRequest(_identity_in(extensions), key)


def certify_request(authority: KeyPair, request: SigningRequest, *, days: int, now: datetime.datetime) -> bytes:
    """Issue the certificate, PEM, that a request asks for. Compare its fingerprint before.

    Raises:
        ValueError: it is for another federation than the authority's; or as `service.pki.certify`.
    """
    federation = federation_of(read_pair(authority)[0])
    identity = request.identity
    if identity.federation != federation:
        raise ValueError(
            f"the request is for federation {identity.federation}, but this is the authority of {federation}"
        )
    return certify(authority, identity.role, identity.name, request.public_key, days=days, now=now)


def _identity_in(extensions: Sequence[x509.Extension[x509.ExtensionType]]) -> Identity:
    names = [one.value for one in extensions if isinstance(one.value, x509.SubjectAlternativeName)]
    uris = [uri for one in names for uri in one.get_values_for_type(x509.UniformResourceIdentifier)]
    if len(uris) != 1:
        raise ValueError(f"a request must state exactly one identity URI; this one states {len(uris)}")
    return Identity.from_uri(uris[0])
