// The records of TLS 1.3 (RFC 8446, 5 and 7) on a socket, with the secrets that OpenSSL's handshake
// has agreed upon. The bytes on the wire are what OpenSSL's own records would be. OpenSSL's own
// records would copy each byte once more and need a system call for every 16 KiB, which costs more
// than the cipher.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

struct evp_cipher_ctx_st;

namespace hearth {

enum class TlsStep {
  kDone,
  kWantRead,   // call again when the socket can be read
  kWantWrite,  // call again when it can be written; repeat a write with the same bytes
  kClosed,     // the peer closed in order
  kFailed,     // error() says why
};

// A traffic secret of one direction: as many bytes as the cipher's hash has.
struct TlsSecret {
  static constexpr std::size_t kMostBytes = 48;
  ~TlsSecret();

  std::array<unsigned char, kMostBytes> bytes{};
  std::size_t size = 0;
};

enum class TlsContent : std::uint8_t { kAlert = 21, kHandshake = 22, kData = 23 };

// Key, nonce and count of one direction.
class TlsKey {
 public:
  enum class Use { kSeal, kOpen };
  static constexpr std::size_t kHeaderBytes = 5;
  static constexpr std::size_t kContentBytes = 16 * 1024;
  static constexpr std::size_t kTagBytes = 16;
  // Bytes of a record beyond its content: header, inner type and tag.
  static constexpr std::size_t kOverheadBytes = kHeaderBytes + 1 + kTagBytes;

  // `suite`: 0x1301, 0x1302 or 0x1303 (RFC 8446, B.4).
  static Result<TlsKey> make(std::uint16_t suite, const TlsSecret& secret, Use use);

  // Writes one record of at most kContentBytes to `record`, which has room for kOverheadBytes more.
  void seal(TlsContent type, ByteSpan content, std::byte* record);
  // Decrypts the record `header`, `body`: its last plaintext byte to `last`, the bytes before to
  // `content` (body.size() - kTagBytes - 1 bytes). The content is authentic only when this returns
  // true.
  [[nodiscard]] bool open(ByteSpan header, ByteSpan body, std::byte* content, std::byte& last);
  // Changes to the next secret.
  Status update();

 private:
  struct Freed {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  TlsKey() = default;
  Status derive();
  std::array<unsigned char, 12> nonce();

  std::uint16_t suite_ = 0;
  Use use_ = Use::kSeal;
  TlsSecret secret_;
  std::unique_ptr<evp_cipher_ctx_st, Freed> cipher_;
  std::array<unsigned char, 12> iv_{};
  std::uint64_t records_ = 0;
};

// Both directions over a non-blocking socket, which the caller owns. One thread.
class TlsRecords {
 public:
  static constexpr std::size_t kWriteBytes = 4 * TlsKey::kContentBytes;  // of one write at most

  // `key_bytes`: bytes written before our traffic key changes.
  TlsRecords(int socket, TlsKey out, TlsKey in, std::size_t key_bytes);

  // `done`: bytes read, above 0 with kDone. The bytes of `into` behind them may change too.
  TlsStep read(MutableByteSpan into, std::size_t& done);
  // Whether read() holds bytes that have come, which the socket no longer shows.
  bool holds_bytes() const { return taken_ < filled_ || !left_.empty(); }
  // `more`: another write follows at once; the peer may wait for these bytes until then.
  TlsStep write(ByteSpan bytes, bool more, std::size_t& done);
  void shutdown();  // tells the peer that nothing follows
  const std::string& error() const { return error_; }
  // Whether the peer ended the link because it does not admit our key.
  bool refused() const { return refused_; }

 private:
  enum class Alert : std::uint8_t {
    kCloseNotify = 0,
    kUnexpectedMessage = 10,
    kBadRecordMac = 20,
    kRecordOverflow = 22,
    kHandshakeFailure = 40,
    kIllegalParameter = 47,
    kInternalError = 80,
  };
  struct Record {
    TlsContent type = TlsContent::kData;
    ByteSpan content;
  };

  TlsStep receive();
  TlsStep open_record(std::size_t body_bytes, MutableByteSpan into, Record& record);
  TlsStep take_message(const Record& record);
  TlsStep fail(Alert alert, std::string why);
  TlsStep send_sealed(bool more);
  void append(TlsContent type, ByteSpan content);
  void say(Alert alert);

  const int socket_;
  TlsKey out_;
  TlsKey in_;
  const std::size_t key_bytes_;
  std::size_t written_ = 0;  // with the key in use
  bool key_due_ = false;

  Bytes received_;  // as it came
  std::size_t taken_ = 0;
  std::size_t filled_ = 0;
  Bytes opened_;  // of a record for which the reader had no room
  ByteSpan left_;
  int without_data_ = 0;  // records in a row

  Bytes sealed_;
  std::size_t sealed_bytes_ = 0;
  std::size_t sent_ = 0;      // of sealed_
  std::size_t promised_ = 0;  // bytes of the write that sealed_ carries
  bool ended_ = false;        // our last record was an alert
  bool refused_ = false;
  std::string error_;
};

}  // namespace hearth
