// The records of TLS 1.3 (RFC 8446, 5 and 7) on a socket, with the secrets that OpenSSL's handshake
// has agreed upon. The bytes on the wire are what OpenSSL's own records would be. It is apart from
// OpenSSL because there a byte is copied once more each way and every 16 KiB is a call of the
// kernel: more than the cipher itself costs.
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
  kWantRead,   // again when the socket can be read
  kWantWrite,  // again when it can be written; a write with the same bytes
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
  // Of a record beyond its content: the header, the type within, the tag.
  static constexpr std::size_t kOverheadBytes = kHeaderBytes + 1 + kTagBytes;

  // `suite`: 0x1301, 0x1302 or 0x1303 (RFC 8446, B.4).
  static Result<TlsKey> make(std::uint16_t suite, const TlsSecret& secret, Use use);

  // One record of at most kContentBytes to `record`, which has kOverheadBytes more.
  void seal(TlsContent type, ByteSpan content, std::byte* record);
  // The record `header`, `body` without its last byte to `content` (body.size() - kTagBytes - 1
  // bytes), which is not to be believed before this returns true, and that byte to `last`.
  [[nodiscard]] bool open(ByteSpan header, ByteSpan body, std::byte* content, std::byte& last);
  // To the next secret.
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

// Both directions over a socket that does not block and stays the caller's. One thread.
class TlsRecords {
 public:
  static constexpr std::size_t kWriteBytes = 4 * TlsKey::kContentBytes;  // of one write at most

  // `key_bytes`: written before our key is changed for the next.
  TlsRecords(int socket, TlsKey out, TlsKey in, std::size_t key_bytes);

  // `done`: bytes read, above 0 with kDone. `into` may be written beyond them.
  TlsStep read(MutableByteSpan into, std::size_t& done);
  // `more`: another write follows at once; the peer may wait for these bytes until then.
  TlsStep write(ByteSpan bytes, bool more, std::size_t& done);
  void shutdown();  // tells the peer that nothing follows
  const std::string& error() const { return error_; }

 private:
  enum class Alert : std::uint8_t {
    kCloseNotify = 0,
    kUnexpectedMessage = 10,
    kBadRecordMac = 20,
    kRecordOverflow = 22,
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
  bool ended_ = false;        // an alert was the last that we said
  std::string error_;
};

}  // namespace hearth
