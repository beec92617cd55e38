// TLS 1.3 as links use it, by OpenSSL. Both sides show a self-signed certificate of their node key.
// Only that key counts: names, dates and issuers of certificates are ignored, and the roster says
// whose key it is. Older protocols, resumption, early data and sessions without a certificate are
// off.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "proto/link/tls_records.h"

struct ssl_ctx_st;
struct ssl_st;

namespace hearth {

// A node key with a certificate made for it. The PEM texts are for gRPC, which accepts only PEM.
struct TlsIdentity {
  static Result<TlsIdentity> make(const SecretKey& key);

  PublicKey key;
  std::string certificate;
  std::string private_key;
};

// The Ed25519 key of a certificate in PEM, at most limits::kCertificateBytes long. It does not
// prove who sent it; the handshake does.
Result<PublicKey> certificate_key(std::string_view pem);

// The key that the peer has proved to hold, after a handshake of OpenSSL that asked for a
// certificate.
Result<PublicKey> handshake_key(ssl_st& tls);

// What all links of a transport share.
class TlsContext {
 public:
  // Called within a handshake, before the peer has proved that it holds the key. A refusal ends the
  // handshake with an alert; its message is for our own log.
  using Admit = std::function<Status(const PublicKey& key)>;

  static Result<std::unique_ptr<TlsContext>> make(const TlsIdentity& identity, Admit admit);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsStream;
  TlsContext() = default;
  ssl_ctx_st* context_ = nullptr;
  Admit admit_;
};

// One connection over a non-blocking socket: OpenSSL's handshake, then our own records with its
// secrets. The caller owns the socket, waits for it when a step says so, and calls again.
class TlsStream {
 public:
  enum class Side { kClient, kServer };
  using Step = TlsStep;

  // `context` outlives the stream. `key_bytes`: bytes written before our traffic key changes.
  TlsStream(TlsContext& context, int socket, Side side, std::size_t key_bytes);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Step handshake();
  // The records of the link; after the handshake.
  TlsRecords& records() { return *records_; }

  // The key that the peer has proved to hold; after the handshake.
  const PublicKey& peer() const { return peer_; }
  const std::string& error() const { return error_; }

 private:
  friend class TlsContext;
  struct Socket;
  Step step_of(int returned);
  Status check_peer();
  Status take_over();
  void keep_secret(std::string_view line);

  TlsContext& context_;
  const int socket_;
  const Side side_;
  const std::size_t key_bytes_;
  ssl_st* ssl_ = nullptr;  // until the handshake has ended
  TlsSecret clients_;
  TlsSecret servers_;
  std::unique_ptr<TlsRecords> records_;
  PublicKey peer_;
  std::string refusal_;  // by the context's owner
  std::string error_;
};

}  // namespace hearth
