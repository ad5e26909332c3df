"""A throw-away certificate authority and a server certificate for loopback."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=90)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _private(path: Path, body: bytes) -> None:
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_bytes(body)


def make(directory: Path) -> tuple[Path, Path, Path]:
    """Files of the CA certificate, the server certificate and its key; created once, and again when expired.

    The CA's own key is never written.
    """
    ca_file, cert_file, key_file = (directory / n for n in ("ca.crt", "server.crt", "server.key"))
    if ca_file.exists() and cert_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
        # with a day to spare: a server runs for hours with the certificate that it starts with
        if certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=1):
            return ca_file, cert_file, key_file
    now = datetime.now(UTC) - timedelta(minutes=5)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("kubernetes rehearsal throw-away CA")
    ca = _authority(ca_key, ca_name, now)
    key = ec.generate_private_key(ec.SECP256R1())
    cert = _server(key, ca_key, ca_name, now)
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    _private(
        key_file,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    return ca_file, cert_file, key_file


def _authority(ca_key: ec.EllipticCurvePrivateKey, ca_name: x509.Name, now: datetime) -> x509.Certificate:
    """A CA that signs server certificates and no further CA."""
    return (
        x509.CertificateBuilder()
        .subject_name(ca_name)
        .issuer_name(ca_name)
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _server(
    key: ec.EllipticCurvePrivateKey, ca_key: ec.EllipticCurvePrivateKey, ca_name: x509.Name, now: datetime
) -> x509.Certificate:
    """The certificate of a server on this machine."""
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(_name("kubernetes rehearsal"))
        .issuer_name(ca_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
