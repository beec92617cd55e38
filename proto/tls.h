// TLS 1.3 as links use it, by OpenSSL. Both sides show a self-signed certificate of their node key.
// What counts is that key alone: names, dates and issuers of certificates mean nothing, and whose
// key it is, the roster says. There is no older protocol, no resumption, no early data and no
// session without a certificate.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace hearth {

// A node key with a certificate made for it. The PEM texts are for gRPC, which takes nothing else.
struct TlsIdentity {
  static Result<TlsIdentity> make(const SecretKey& key);

  PublicKey key;
  std::string certificate;
  std::string private_key;
};

// The Ed25519 key of a certificate in PEM, at most limits::kCertificateBytes long. Proves nothing
// about who sent it: that the handshake does.
Result<PublicKey> certificate_key(std::string_view pem);

// What all links of a transport share.
class TlsContext {
 public:
  // Asked within a handshake, before the peer has proved that it holds the key. A refusal ends the
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

// One connection over a socket that does not block. The socket stays the caller's, who waits for it
// when a step says so and then calls again.
class TlsStream {
 public:
  enum class Side { kClient, kServer };
  enum class Step {
    kDone,
    kWantRead,   // again when the socket can be read
    kWantWrite,  // again when it can be written; a write with the same bytes
    kClosed,     // the peer closed in order
    kFailed,     // error() says why
  };
  static constexpr std::size_t kRecordBytes = 16 * 1024;  // of one write at most

  // `context` outlives the stream. `key_bytes`: written before our key is changed for the next.
  TlsStream(TlsContext& context, int socket, Side side, std::size_t key_bytes);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Step handshake();
  // After the handshake. `done`: bytes read or written, above 0 with kDone.
  Step read(MutableByteSpan into, std::size_t& done);
  // `more`: another write follows at once; the peer may wait for these bytes until then.
  Step write(ByteSpan bytes, bool more, std::size_t& done);
  void shutdown();  // tells the peer that nothing follows

  // Of the side that has proved to hold it; after the handshake.
  const PublicKey& peer() const { return peer_; }
  const std::string& error() const { return error_; }

 private:
  friend class TlsContext;
  struct Socket;
  Step step_of(int returned);
  Status check_peer();

  static constexpr std::size_t kRecordHeaderBytes = 5;

  TlsContext& context_;
  const int socket_;
  ssl_st* ssl_ = nullptr;
  bool more_ = false;
  std::array<char, kRecordHeaderBytes> ahead_{};  // read already
  std::size_t ahead_taken_ = 0;
  std::size_t ahead_filled_ = 0;
  const std::size_t key_bytes_;
  std::size_t written_ = 0;  // with the key in use
  PublicKey peer_;
  std::string refusal_;  // by the context's owner
  std::string error_;
};

}  // namespace hearth
