#include "proto/link/tls_records.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace hearth {
namespace {

// A padded record may be this much longer than its content (RFC 8446, 5.2).
constexpr std::size_t kBodyBytes = TlsKey::kContentBytes + 256;
constexpr std::size_t kReceiveBytes = 4 * (TlsKey::kHeaderBytes + kBodyBytes);
static_assert(kBodyBytes <= 0xFFFF, "the two length bytes of a record hold its longest body");
static_assert(TlsRecords::kWriteBytes % TlsKey::kContentBytes == 0,
              "the longest write is a whole number of full records");
// Bounds records without data, which would occupy the reader for nothing.
constexpr int kMostWithoutData = 32;
constexpr std::byte kOpaqueType{23};
constexpr std::byte kLegacyVersion{3};  // both bytes of 0x0303
// KeyUpdate, of one byte: whether the peer should change its key as well.
constexpr std::array<std::byte, 4> kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0},
                                                 std::byte{1}};

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

struct Suite {
  const EVP_CIPHER* cipher;
  const EVP_MD* hash;
};

Result<Suite> suite_of(std::uint16_t number) {
  switch (number) {
    case 0x1301: return Suite{EVP_aes_128_gcm(), EVP_sha256()};
    case 0x1302: return Suite{EVP_aes_256_gcm(), EVP_sha384()};
    case 0x1303: return Suite{EVP_chacha20_poly1305(), EVP_sha256()};
    default: return Error{ErrorCode::kUnsupported, "no cipher suite of TLS 1.3"};
  }
}

// HKDF-Expand-Label without a context (RFC 8446, 7.1).
bool expand(const EVP_MD* hash, const TlsSecret& secret, std::string_view label, unsigned char* out,
            std::size_t size) {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  EVP_KDF_free(kdf);
  if (context == nullptr) return false;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const auto text = [](std::string_view value) { return const_cast<char*>(value.data()); };
  constexpr std::string_view kPrefix = "tls13 ";
  const std::array<OSSL_PARAM, 6> parameters = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
                                       const_cast<char*>(EVP_MD_get0_name(hash)), 0),
      OSSL_PARAM_construct_octet_string(
          OSSL_KDF_PARAM_KEY, const_cast<unsigned char*>(secret.bytes.data()), secret.size),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, text(kPrefix), kPrefix.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, text(label), label.size()),
      OSSL_PARAM_construct_end()};
  const bool derived = EVP_KDF_derive(context, out, size, parameters.data()) == 1;
  EVP_KDF_CTX_free(context);
  return derived;
}

}  // namespace

TlsSecret::~TlsSecret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

// --- one direction --------------------------------------------------------------------------

void TlsKey::Freed::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Result<TlsKey> TlsKey::make(std::uint16_t suite, const TlsSecret& secret, Use use) {
  TlsKey made;
  made.suite_ = suite;
  made.use_ = use;
  made.secret_ = secret;
  made.cipher_.reset(EVP_CIPHER_CTX_new());
  TRY_VOID(made.derive());
  return made;
}

Status TlsKey::derive() {
  TRY(const Suite suite, suite_of(suite_));
  const auto& [cipher, hash] = suite;
  TlsSecret key;
  REQUIRE(cipher_ != nullptr, "no memory for a link");
  REQUIRE(secret_.size == static_cast<std::size_t>(EVP_MD_get_size(hash)),
          "the handshake has left a secret of ", secret_.size, " bytes");
  key.size = static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher));
  const bool ready = key.size <= key.bytes.size() &&
                     expand(hash, secret_, "key", key.bytes.data(), key.size) &&
                     expand(hash, secret_, "iv", iv_.data(), iv_.size()) &&
                     EVP_CipherInit_ex(cipher_.get(), cipher, nullptr, key.bytes.data(), iv_.data(),
                                       use_ == Use::kSeal ? 1 : 0) == 1;
  REQUIRE(ready, "OpenSSL derives no keys of TLS 1.3");
  records_ = 0;
  return ok_status();
}

Status TlsKey::update() {
  TlsSecret next;
  next.size = secret_.size;
  TRY(const Suite suite, suite_of(suite_));
  REQUIRE(expand(suite.hash, secret_, "traffic upd", next.bytes.data(), next.size),
          "OpenSSL derives no keys of TLS 1.3");
  secret_ = next;
  return derive();
}

std::array<unsigned char, 12> TlsKey::nonce() {
  std::array<unsigned char, 12> made = iv_;
  const std::uint64_t record = records_++;
  for (std::size_t i = 0; i < 8; ++i) {
    made[made.size() - 1 - i] ^= static_cast<unsigned char>(record >> (8 * i));
  }
  return made;
}

void TlsKey::seal(TlsContent type, ByteSpan content, std::byte* record) {
  INVARIANT(use_ == Use::kSeal && content.size() <= kContentBytes, "a record has its limit");
  const std::size_t body = content.size() + 1 + kTagBytes;
  record[0] = kOpaqueType;
  record[1] = record[2] = kLegacyVersion;
  record[3] = static_cast<std::byte>(body >> 8);
  record[4] = static_cast<std::byte>(body & 0xff);
  const auto once = nonce();
  const auto inner = static_cast<unsigned char>(type);
  std::byte* out = record + kHeaderBytes;
  evp_cipher_ctx_st* with = cipher_.get();
  int size = 0;
  const bool sealed =
      EVP_EncryptInit_ex(with, nullptr, nullptr, nullptr, once.data()) == 1 &&
      EVP_EncryptUpdate(with, nullptr, &size, raw(record), kHeaderBytes) == 1 &&
      EVP_EncryptUpdate(with, raw(out), &size, raw(content.data()),
                        static_cast<int>(content.size())) == 1 &&
      EVP_EncryptUpdate(with, raw(out + content.size()), &size, &inner, 1) == 1 &&
      EVP_EncryptFinal_ex(with, raw(out), &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(with, EVP_CTRL_AEAD_GET_TAG, kTagBytes, out + content.size() + 1) == 1;
  INVARIANT(sealed, "a cipher that was set up seals");
}

bool TlsKey::open(ByteSpan header, ByteSpan body, std::byte* content, std::byte& last) {
  INVARIANT(use_ == Use::kOpen && body.size() > kTagBytes, "a record has a type and a tag");
  const std::size_t before = body.size() - kTagBytes - 1;
  const auto once = nonce();
  evp_cipher_ctx_st* with = cipher_.get();
  int size = 0;
  unsigned char none = 0;
  auto* tag = const_cast<std::byte*>(body.data() + before + 1);
  return EVP_DecryptInit_ex(with, nullptr, nullptr, nullptr, once.data()) == 1 &&
         EVP_DecryptUpdate(with, nullptr, &size, raw(header.data()),
                           static_cast<int>(header.size())) == 1 &&
         EVP_DecryptUpdate(with, raw(content), &size, raw(body.data()), static_cast<int>(before)) ==
             1 &&
         EVP_DecryptUpdate(with, raw(&last), &size, raw(body.data() + before), 1) == 1 &&
         EVP_CIPHER_CTX_ctrl(with, EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag) == 1 &&
         EVP_DecryptFinal_ex(with, &none, &size) == 1;
}

// --- both on a socket -----------------------------------------------------------------------

TlsRecords::TlsRecords(int socket, TlsKey out, TlsKey in, std::size_t key_bytes)
    : socket_(socket),
      out_(std::move(out)),
      in_(std::move(in)),
      key_bytes_(key_bytes),
      received_(kReceiveBytes) {}

TlsStep TlsRecords::fail(Alert alert, std::string why) {
  error_ = std::move(why);
  say(alert);
  return TlsStep::kFailed;
}

TlsStep TlsRecords::receive() {
  INVARIANT(taken_ <= filled_, "a record is taken after all its bytes have come");
  if (taken_ > 0) {
    std::memmove(received_.data(), received_.data() + taken_, filled_ - taken_);
    filled_ -= std::exchange(taken_, 0);
  }
  const ssize_t got = ::recv(socket_, received_.data() + filled_, received_.size() - filled_, 0);
  if (got > 0) {
    filled_ += static_cast<std::size_t>(got);
    return TlsStep::kDone;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return TlsStep::kWantRead;
  }
  error_ = got == 0 ? "the peer closed the connection without an alert" : std::strerror(errno);
  return TlsStep::kFailed;
}

// Opens a record to `into` if it fits, else to opened_.
TlsStep TlsRecords::open_record(std::size_t body_bytes, MutableByteSpan into, Record& record) {
  const ByteSpan whole = ByteSpan(received_).subspan(taken_, TlsKey::kHeaderBytes + body_bytes);
  const std::size_t before = body_bytes - TlsKey::kTagBytes - 1;
  if (into.size() < before && opened_.size() < before) opened_.resize(kBodyBytes);
  std::byte* content = into.size() >= before ? into.data() : opened_.data();
  std::byte last{};
  taken_ += whole.size();
  if (!in_.open(whole.first(TlsKey::kHeaderBytes), whole.subspan(TlsKey::kHeaderBytes), content,
                last)) {
    return fail(Alert::kBadRecordMac, "a record's tag is wrong");
  }
  std::size_t size = before;
  while (last == std::byte{0} && size > 0) last = content[--size];  // padding
  record.type = static_cast<TlsContent>(last);
  record.content = ByteSpan(content, size);
  if (size > TlsKey::kContentBytes) {
    return fail(Alert::kRecordOverflow, "a record holds " + std::to_string(size) + " bytes");
  }
  return TlsStep::kDone;
}

TlsStep TlsRecords::read(MutableByteSpan into, std::size_t& done) {
  while (left_.empty()) {
    const ByteSpan ready = ByteSpan(received_).subspan(taken_, filled_ - taken_);
    std::size_t body = 0;
    if (ready.size() >= TlsKey::kHeaderBytes) {
      body = std::to_integer<std::size_t>(ready[3]) << 8 | std::to_integer<std::size_t>(ready[4]);
      if (ready[0] != kOpaqueType || ready[1] != kLegacyVersion || ready[2] != kLegacyVersion) {
        return fail(Alert::kUnexpectedMessage, "a record of type " +
                                                   std::to_string(std::to_integer<int>(ready[0])) +
                                                   " that is not encrypted");
      }
      if (body <= TlsKey::kTagBytes || body > kBodyBytes) {
        return fail(Alert::kRecordOverflow, "a record of " + std::to_string(body) + " bytes");
      }
    }
    if (body == 0 || ready.size() < TlsKey::kHeaderBytes + body) {
      const TlsStep step = receive();
      if (step != TlsStep::kDone) return step;
      continue;
    }
    Record record;
    const TlsStep opened = open_record(body, into, record);
    if (opened != TlsStep::kDone) return opened;
    if (record.type == TlsContent::kData && !record.content.empty()) {
      without_data_ = 0;
      if (record.content.data() == into.data()) {
        done = record.content.size();
        return TlsStep::kDone;
      }
      left_ = record.content;
      break;
    }
    const TlsStep taken = take_message(record);
    if (taken != TlsStep::kDone) return taken;
  }
  done = std::min(into.size(), left_.size());
  std::memcpy(into.data(), left_.data(), done);
  left_ = left_.subspan(done);
  return TlsStep::kDone;
}

// A record without data: an alert, a change of the peer's key, or an empty one.
TlsStep TlsRecords::take_message(const Record& record) {
  if (++without_data_ > kMostWithoutData) {
    return fail(Alert::kUnexpectedMessage, "too many records without data");
  }
  const ByteSpan content = record.content;
  switch (record.type) {
    case TlsContent::kData: return TlsStep::kDone;
    case TlsContent::kAlert: {
      if (content.size() != 2) return fail(Alert::kUnexpectedMessage, "an alert of another size");
      const int said = std::to_integer<int>(content[1]);
      if (said == static_cast<int>(Alert::kCloseNotify)) return TlsStep::kClosed;
      // It follows our own handshake, because the peer has only now checked our certificate.
      refused_ = said == static_cast<int>(Alert::kHandshakeFailure);
      error_ = std::string("the peer sent the alert: ") + SSL_alert_desc_string_long(said);
      return TlsStep::kFailed;
    }
    case TlsContent::kHandshake: break;
    default: return fail(Alert::kUnexpectedMessage, "a record of an unknown type");
  }
  const bool update = content.size() == kKeyUpdate.size() + 1 &&
                      std::equal(kKeyUpdate.begin(), kKeyUpdate.end(), content.begin());
  if (!update) return fail(Alert::kUnexpectedMessage, "a message of a handshake after its end");
  const int asked = std::to_integer<int>(content.back());
  if (asked > 1) return fail(Alert::kIllegalParameter, "a change of keys of an unknown kind");
  key_due_ = key_due_ || asked == 1;
  if (const Status updated = in_.update(); !updated.ok()) {
    return fail(Alert::kInternalError, updated.error().message);
  }
  return TlsStep::kDone;
}

void TlsRecords::append(TlsContent type, ByteSpan content) {
  out_.seal(type, content, sealed_.data() + sealed_bytes_);
  sealed_bytes_ += content.size() + TlsKey::kOverheadBytes;
}

TlsStep TlsRecords::write(ByteSpan bytes, bool more, std::size_t& done) {
  if (ended_) {
    if (error_.empty()) error_ = "a write after the end";
    return TlsStep::kFailed;
  }
  if (sent_ == sealed_bytes_) {
    sent_ = sealed_bytes_ = 0;
    // Room for one change of keys and the records of one write.
    sealed_.resize(5 * TlsKey::kOverheadBytes + kKeyUpdate.size() + 1 + kWriteBytes);
    if (key_due_ || written_ >= key_bytes_) {
      std::array<std::byte, kKeyUpdate.size() + 1> message{};
      std::copy(kKeyUpdate.begin(), kKeyUpdate.end(), message.begin());
      append(TlsContent::kHandshake, message);
      if (const Status updated = out_.update(); !updated.ok()) {
        error_ = updated.error().message;
        return TlsStep::kFailed;
      }
      key_due_ = false;
      written_ = 0;
    }
    promised_ = std::min(bytes.size(), kWriteBytes);
    for (std::size_t at = 0; at < promised_; at += TlsKey::kContentBytes) {
      append(TlsContent::kData, bytes.subspan(at, std::min(TlsKey::kContentBytes, promised_ - at)));
    }
    written_ += promised_;
  }
  INVARIANT(bytes.size() >= promised_, "a write that waits is repeated with the same bytes");
  const TlsStep step = send_sealed(more);
  if (step == TlsStep::kDone) done = promised_;
  return step;
}

TlsStep TlsRecords::send_sealed(bool more) {
  while (sent_ < sealed_bytes_) {
    // MSG_NOSIGNAL: a write to a closed socket must not raise a signal. MSG_MORE: the kernel may
    // wait and send larger segments.
    const ssize_t sent = ::send(socket_, sealed_.data() + sent_, sealed_bytes_ - sent_,
                                MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return TlsStep::kWantWrite;
    }
    if (sent < 0) {
      error_ = std::strerror(errno);
      return TlsStep::kFailed;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  return TlsStep::kDone;
}

// Sent only between whole records, and only if the socket takes it at once.
void TlsRecords::say(Alert alert) {
  if (ended_ || sent_ != sealed_bytes_) return;
  ended_ = true;
  constexpr std::byte kWarning{1};
  constexpr std::byte kFatal{2};
  const std::array<std::byte, 2> content = {alert == Alert::kCloseNotify ? kWarning : kFatal,
                                            static_cast<std::byte>(alert)};
  sent_ = sealed_bytes_ = 0;
  sealed_.resize(std::max(sealed_.size(), content.size() + TlsKey::kOverheadBytes));
  append(TlsContent::kAlert, content);
  const std::string kept = error_;
  (void)send_sealed(false);
  error_ = kept;
}

void TlsRecords::shutdown() { say(Alert::kCloseNotify); }

}  // namespace hearth
