"""TLS as somebody speaks it who has no certificate, and looks at none."""

import ssl


def context(newest=ssl.TLSVersion.TLSv1_3):
    unsafe = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unsafe.check_hostname = False
    unsafe.verify_mode = ssl.CERT_NONE
    unsafe.maximum_version = newest
    unsafe.set_alpn_protocols(["h2", "hearth/1"])
    return unsafe
