"""Signing requests: how a member gets a certificate while its private key never leaves its host.

The member makes the key and a request that states its identity, signed by that key. The authority certifies what the
request says if the fingerprint that the member tells it over another channel is that of the request: a request alone
proves only that somebody has the key.
"""

import datetime
import hashlib
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.identity import Identity
from service.pki import KeyPair, certify, federation_of, private_pem

FINGERPRINT_BYTES = 16
"""Of SHA-256. Who wants another request to pass for a given one must find a second preimage of 128 bits."""


@dataclass(frozen=True)
class SigningRequest:
    """A request whose signature is right.

    Attributes:
        identity: that the certificate shall state.
        public_key: of the member.
    """

    identity: Identity
    public_key: ec.EllipticCurvePublicKey

    @property
    def fingerprint(self) -> str:
        """Of the identity and the public key, to be read aloud: eight groups of four hexadecimal digits."""
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
    try:
        request = x509.load_pem_x509_csr(pem)
        is_signed = request.is_signature_valid
        key = request.public_key()
    except ValueError as error:
        raise ValueError("the file is not a signing request, which `moiety pki request` makes") from error
    if not is_signed:
        raise ValueError("the signature of the request is wrong: it was changed, or its maker does not have the key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(
            "the key of the request is not an elliptic curve key on P-256; make one with `moiety pki request`"
        )
    return SigningRequest(_identity_in(request), key)


def certify_request(authority: KeyPair, request: SigningRequest, *, days: int, now: datetime.datetime) -> bytes:
    """Issue the certificate, PEM, that a request asks for. Compare its fingerprint before.

    Raises:
        ValueError: it is for another federation than the authority's; or as `service.pki.certify`.
    """
    federation = federation_of(x509.load_pem_x509_certificate(authority.certificate_pem))
    identity = request.identity
    if identity.federation != federation:
        raise ValueError(
            f"the request is for federation {identity.federation}, but this is the authority of {federation}"
        )
    return certify(authority, identity.role, identity.name, request.public_key, days=days, now=now)


def _identity_in(request: x509.CertificateSigningRequest) -> Identity:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        uris: list[str] = []
    else:
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise ValueError(f"a request must state exactly one identity URI; this one states {len(uris)}")
    return Identity.from_uri(uris[0])
