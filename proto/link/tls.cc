#include "proto/link/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth {
namespace {

// A link must not be mistaken for another protocol's that uses the same key.
constexpr unsigned char kProtocol[] = {8, 'h', 'e', 'a', 'r', 't', 'h', '/', '1'};

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "no reason was given" : reason;
}

Error tls_error(const std::string& what) {
  return Error::of(ErrorCode::kUnsupported, what, ": ", openssl_error());
}

Result<PublicKey> key_of(const X509* certificate) {
  EVP_PKEY* key = certificate == nullptr ? nullptr : X509_get0_pubkey(certificate);
  REQUIRE(key != nullptr && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519,
          "the peer's certificate has no Ed25519 key");
  std::array<std::byte, PublicKey::kBytes> raw{};
  std::size_t size = raw.size();
  const int got =
      EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(raw.data()), &size);
  REQUIRE(got == 1 && size == raw.size(), "the peer's certificate has no Ed25519 key");
  return PublicKey::parse(raw);
}

Result<std::string> text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  if (size <= 0) return tls_error("writing a certificate");
  return std::string(data, static_cast<std::size_t>(size));
}

Result<CertificatePtr> make_certificate(EVP_PKEY* key) {
  CertificatePtr made(X509_new());
  X509_NAME* name = made == nullptr ? nullptr : X509_get_subject_name(made.get());
  const bool filled =
      name != nullptr && X509_set_version(made.get(), X509_VERSION_3) == 1 &&
      ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1) == 1 &&
      ASN1_TIME_set_string(X509_getm_notBefore(made.get()), "19700101000000Z") == 1 &&
      ASN1_TIME_set_string(X509_getm_notAfter(made.get()), "99991231235959Z") == 1 &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("hearth"), -1, -1,
                                 0) == 1 &&
      X509_set_issuer_name(made.get(), name) == 1 && X509_set_pubkey(made.get(), key) == 1 &&
      X509_sign(made.get(), key, nullptr) != 0;
  if (!filled) return tls_error("making a certificate");
  return made;
}

bool may_pass() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

long control_socket(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

int choose_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void* /*argument*/) {
  unsigned char* found = nullptr;
  const int outcome =
      SSL_select_next_proto(&found, size, kProtocol, sizeof(kProtocol), offered, offered_size);
  *chosen = found;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status configure(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context, limits::kCertificateBytes);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  const bool set = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_num_tickets(context, 0) == 1 &&
                   SSL_CTX_set_max_early_data(context, 0) == 1 &&
                   SSL_CTX_set_ciphersuites(context,
                                            "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                            "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
                   SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
                   SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
                   SSL_CTX_set_alpn_protos(context, kProtocol, sizeof(kProtocol)) == 0;
  if (!set) return tls_error("OpenSSL refuses TLS 1.3 with Ed25519");
  return ok_status();
}

Status load(SSL_CTX* context, const TlsIdentity& identity) {
  const BioPtr certificate(
      BIO_new_mem_buf(identity.certificate.data(), static_cast<int>(identity.certificate.size())));
  const BioPtr key(
      BIO_new_mem_buf(identity.private_key.data(), static_cast<int>(identity.private_key.size())));
  const CertificatePtr parsed(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  const KeyPtr secret(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  const bool used = parsed != nullptr && secret != nullptr &&
                    SSL_CTX_use_certificate(context, parsed.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, secret.get()) == 1 &&
                    SSL_CTX_check_private_key(context) == 1;
  if (!used) return tls_error("loading the node's certificate");
  return ok_status();
}

}  // namespace

Result<TlsIdentity> TlsIdentity::make(const SecretKey& key) {
  const auto* seed = reinterpret_cast<const unsigned char*>(key.seed().data());
  const KeyPtr secret(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed, key.seed().size()));
  if (secret == nullptr) return tls_error("OpenSSL takes no Ed25519 key");
  TRY(const CertificatePtr certificate, make_certificate(secret.get()));
  const BioPtr certificate_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_secmem()));
  const bool written = PEM_write_bio_X509(certificate_text.get(), certificate.get()) == 1 &&
                       PEM_write_bio_PrivateKey(key_text.get(), secret.get(), nullptr, nullptr, 0,
                                                nullptr, nullptr) == 1;
  if (!written) return tls_error("writing a certificate");
  TlsIdentity made;
  made.key = key.public_key();
  TRY(made.certificate, text_of(certificate_text.get()));
  TRY(made.private_key, text_of(key_text.get()));
  return made;
}

Result<PublicKey> certificate_key(std::string_view pem) {
  REQUIRE(pem.size() <= limits::kCertificateBytes, "a certificate of ", pem.size(),
          " bytes; the limit is ", limits::kCertificateBytes);
  const BioPtr text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const CertificatePtr certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return key_of(certificate.get());
}

Result<PublicKey> handshake_key(ssl_st& tls) { return key_of(SSL_get0_peer_certificate(&tls)); }

Result<std::unique_ptr<TlsContext>> TlsContext::make(const TlsIdentity& identity, Admit admit) {
  std::unique_ptr<TlsContext> made(new TlsContext());
  made->admit_ = std::move(admit);
  made->context_ = SSL_CTX_new(TLS_method());
  if (made->context_ == nullptr) return tls_error("OpenSSL has no TLS");
  TRY_VOID(configure(made->context_));
  TRY_VOID(load(made->context_, identity));
  SSL_CTX_set_keylog_callback(made->context_, [](const SSL* ssl, const char* line) {
    static_cast<TlsStream*>(SSL_get_app_data(ssl))->keep_secret(line);
  });
  SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Checks the key of the first certificate instead of chains and names. OpenSSL then checks on
  // both sides that the peer holds that key.
  SSL_CTX_set_cert_verify_callback(
      made->context_,
      [](X509_STORE_CTX* store, void*) {
        const int index = SSL_get_ex_data_X509_STORE_CTX_idx();
        auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, index));
        auto* stream = static_cast<TlsStream*>(SSL_get_app_data(ssl));
        const auto key = key_of(X509_STORE_CTX_get0_cert(store));
        const Status admitted = key ? stream->context_.admit_(*key) : Status(key.error());
        if (admitted.ok()) return 1;
        stream->refusal_ = admitted.error().message;
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        return 0;
      },
      nullptr);
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

// OpenSSL's access to the socket. It reads record by record, so that the bytes behind the handshake
// are still in the socket at its end.
struct TlsStream::Socket {
  static TlsStream& stream(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  // Without the signal that a write to a closed socket would raise.
  static int write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent =
        ::send(stream(bio).socket_, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
    if (sent < 0 && may_pass()) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
  }

  static int read(BIO* bio, char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(stream(bio).socket_, bytes, static_cast<std::size_t>(size), 0);
    if (got < 0 && may_pass()) BIO_set_retry_read(bio);
    if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return static_cast<int>(got);
  }

  static const BIO_METHOD* method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "hearth socket");
      INVARIANT(made != nullptr && BIO_meth_set_write(made, write) == 1 &&
                    BIO_meth_set_read(made, read) == 1 &&
                    BIO_meth_set_ctrl(made, control_socket) == 1,
                "a BIO method takes three functions");
      return made;
    }();
    return method;
  }
};

TlsStream::TlsStream(TlsContext& context, int socket, Side side, std::size_t key_bytes)
    : context_(context),
      socket_(socket),
      side_(side),
      key_bytes_(key_bytes),
      ssl_(SSL_new(context.context_)) {
  BIO* bio = BIO_new(Socket::method());
  INVARIANT(ssl_ != nullptr && bio != nullptr, "no memory for a link");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
  side == Side::kServer ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

TlsStream::Step TlsStream::step_of(int returned) {
  const int saved = errno;
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_NONE: return Step::kDone;
    case SSL_ERROR_WANT_READ: return Step::kWantRead;
    case SSL_ERROR_WANT_WRITE: return Step::kWantWrite;
    case SSL_ERROR_ZERO_RETURN: return Step::kClosed;
    case SSL_ERROR_SYSCALL: error_ = saved == 0 ? "end of file" : std::strerror(saved); break;
    default: error_ = openssl_error(); break;
  }
  if (!refusal_.empty()) error_ = refusal_;
  return Step::kFailed;
}

Status TlsStream::check_peer() {
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &protocol, &size);
  REQUIRE(size == sizeof(kProtocol) - 1 && std::memcmp(protocol, kProtocol + 1, size) == 0,
          "the peer speaks TLS, but not this protocol");
  TRY(peer_, key_of(SSL_get0_peer_certificate(ssl_)));
  return ok_status();
}

// A line of OpenSSL's key log: label, the client's random bytes, the secret in hexadecimal.
void TlsStream::keep_secret(std::string_view line) {
  const std::string_view label = line.substr(0, line.find(' '));
  TlsSecret* secret = label == "CLIENT_TRAFFIC_SECRET_0"   ? &clients_
                      : label == "SERVER_TRAFFIC_SECRET_0" ? &servers_
                                                           : nullptr;
  if (secret == nullptr) return;
  const std::string hex(line.substr(line.rfind(' ') + 1));
  if (OPENSSL_hexstr2buf_ex(secret->bytes.data(), secret->bytes.size(), &secret->size, hex.c_str(),
                            '\0') != 1) {
    secret->size = 0;
  }
}

Status TlsStream::take_over() {
  const std::uint16_t suite = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl_));
  REQUIRE(SSL_has_pending(ssl_) == 0, "the handshake has read beyond its end");
  const bool server = side_ == Side::kServer;
  TRY(TlsKey out, TlsKey::make(suite, server ? servers_ : clients_, TlsKey::Use::kSeal));
  TRY(TlsKey in, TlsKey::make(suite, server ? clients_ : servers_, TlsKey::Use::kOpen));
  records_ = std::make_unique<TlsRecords>(socket_, std::move(out), std::move(in), key_bytes_);
  clients_ = servers_ = TlsSecret();
  SSL_free(std::exchange(ssl_, nullptr));
  return ok_status();
}

TlsStream::Step TlsStream::handshake() {
  ERR_clear_error();
  errno = 0;
  const Step step = step_of(SSL_do_handshake(ssl_));
  if (step != Step::kDone) return step;
  Status ready = check_peer();
  if (ready.ok()) ready = take_over();
  if (ready.ok()) return step;
  error_ = ready.error().message;
  return Step::kFailed;
}

}  // namespace hearth
