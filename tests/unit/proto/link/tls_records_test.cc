// Our records against OpenSSL's own, on both ends of a socket pair, and against a peer that holds
// the keys and seals what it likes.
#include "proto/link/tls_records.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "base/limits.h"
#include "proto/link/tls.h"

namespace hearth {
namespace {

struct Sockets {
  Sockets() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both), 0);
    ours = both[0];
    theirs = both[1];
  }
  ~Sockets() {
    ::close(ours);
    ::close(theirs);
  }
  int ours;
  int theirs;
};

Bytes record_pattern(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes made(size);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random());
  return made;
}

// OpenSSL's whole TLS, at the other end of one of our streams.
class Foreign {
 public:
  Foreign(int socket, bool server, const char* suite) {
    const TlsIdentity identity = TlsIdentity::make(SecretKey::generate()).value();
    context_ = SSL_CTX_new(TLS_method());
    BIO* certificate = BIO_new_mem_buf(identity.certificate.data(), -1);
    BIO* key = BIO_new_mem_buf(identity.private_key.data(), -1);
    X509* shown = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
    EVP_PKEY* secret = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context_, shown);
    SSL_CTX_use_PrivateKey(context_, secret);
    X509_free(shown);
    EVP_PKEY_free(secret);
    BIO_free(certificate);
    BIO_free(key);
    static constexpr unsigned char kAlpn[] = {8, 'h', 'e', 'a', 'r', 't', 'h', '/', '1'};
    SSL_CTX_set_alpn_protos(context_, kAlpn, sizeof(kAlpn));
    SSL_CTX_set_alpn_select_cb(
        context_,
        [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char*, unsigned,
           void*) {
          *out = kAlpn + 1;
          *size = sizeof(kAlpn) - 1;
          return SSL_TLSEXT_ERR_OK;
        },
        nullptr);
    SSL_CTX_set_ciphersuites(context_, suite);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
    SSL_CTX_set_num_tickets(context_, 0);
    ssl = SSL_new(context_);
    SSL_set_fd(ssl, socket);
    server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  }
  ~Foreign() {
    SSL_free(ssl);
    SSL_CTX_free(context_);
  }
  SSL* ssl = nullptr;

 private:
  SSL_CTX* context_ = nullptr;
};

class AgainstOpenSsl : public ::testing::TestWithParam<std::tuple<bool, const char*>> {
 protected:
  AgainstOpenSsl()
      : foreign_(sockets_.theirs, std::get<0>(GetParam()), std::get<1>(GetParam())),
        context_(TlsContext::make(TlsIdentity::make(SecretKey::generate()).value(),
                                  [](const PublicKey&) { return ok_status(); })
                     .value()) {}

  void connect(std::size_t key_bytes = limits::kTlsKeyBytes) {
    const auto side = std::get<0>(GetParam()) ? TlsStream::Side::kClient : TlsStream::Side::kServer;
    stream_ = std::make_unique<TlsStream>(*context_, sockets_.ours, side, key_bytes);
    bool here = false;
    bool there = false;
    for (int turn = 0; turn < 20 && !(here && there); ++turn) {
      if (!here) here = stream_->handshake() == TlsStep::kDone;
      if (!there) there = SSL_do_handshake(foreign_.ssl) == 1;
    }
    ASSERT_TRUE(here && there) << stream_->error();
    EXPECT_STREQ(SSL_get_cipher_name(foreign_.ssl), std::get<1>(GetParam()));
  }

  // Everything that the peer writes in pieces of `piece` comes out here as it was.
  void receive(const Bytes& sent, std::size_t piece, std::size_t room) {
    Bytes got;
    Bytes into(room);
    std::size_t at = 0;
    while (got.size() < sent.size()) {
      if (at < sent.size()) {
        std::size_t done = 0;
        const std::size_t size = std::min(piece, sent.size() - at);
        if (SSL_write_ex(foreign_.ssl, sent.data() + at, size, &done) == 1) at += done;
      }
      std::size_t done = 0;
      TlsStep step = TlsStep::kDone;
      while ((step = stream_->records().read(into, done)) == TlsStep::kDone) {
        ASSERT_GT(done, 0u);
        got.insert(got.end(), into.begin(), into.begin() + static_cast<std::ptrdiff_t>(done));
      }
      ASSERT_EQ(step, TlsStep::kWantRead) << stream_->records().error();
    }
    EXPECT_EQ(got, sent);
  }

  void send(const Bytes& sent, std::size_t piece) {
    Bytes got(sent.size());
    std::size_t at = 0;
    std::size_t filled = 0;
    while (filled < sent.size()) {
      if (at < sent.size()) {
        std::size_t done = 0;
        const auto step = stream_->records().write(
            ByteSpan(sent).subspan(at, std::min(piece, sent.size() - at)), true, done);
        if (step == TlsStep::kDone) at += done;
        ASSERT_TRUE(step == TlsStep::kDone || step == TlsStep::kWantWrite);
      }
      std::size_t done = 0;
      while (filled < got.size() &&
             SSL_read_ex(foreign_.ssl, got.data() + filled, got.size() - filled, &done) == 1) {
        filled += done;
      }
      ASSERT_EQ(ERR_peek_error(), 0ul) << ERR_reason_error_string(ERR_peek_error());
    }
    EXPECT_EQ(got, sent);
  }

  Sockets sockets_;
  Foreign foreign_;
  std::unique_ptr<TlsContext> context_;
  std::unique_ptr<TlsStream> stream_;
};

TEST_P(AgainstOpenSsl, BytesOfAnySizeEachWay) {
  connect();
  for (const std::size_t size : {1u, 5u, 16'383u, 16'384u, 16'385u, 65'536u, 65'537u, 1'000'003u}) {
    const Bytes bytes = record_pattern(size, static_cast<unsigned>(size));
    send(bytes, size);
    send(bytes, 9'999);
    receive(bytes, size, 1 << 20);
    receive(bytes, 9'999, 4'096);
    receive(bytes, 16'384, 16'384);
  }
}

TEST_P(AgainstOpenSsl, KeysChangeOnEitherSideAndOnRequest) {
  connect(100'000);  // bytes of ours with one key
  const Bytes bytes = record_pattern(300'000, 1);
  for (int round = 0; round < 5; ++round) {
    send(bytes, 50'000);
    ASSERT_EQ(SSL_key_update(foreign_.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    receive(bytes, 7'777, 5'000);
    ASSERT_EQ(SSL_key_update(foreign_.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    receive(bytes, 16'384, 40'000);
  }
  send(bytes, 1 << 20);
}

TEST_P(AgainstOpenSsl, PaddingIsTakenOff) {
  SSL_set_block_padding(foreign_.ssl, 512);
  connect();
  for (const std::size_t size : {1u, 511u, 512u, 513u, 100'000u}) {
    const Bytes bytes = record_pattern(size, 7);
    receive(bytes, size, 1 << 20);
    receive(bytes, size, 100);
  }
  // What ends in zeros is data, and not padding.
  receive(Bytes(1'000), 1'000, 2'000);
}

TEST_P(AgainstOpenSsl, TheEndIsSaidAndHeard) {
  connect();
  stream_->records().shutdown();
  char byte = 0;
  std::size_t done = 0;
  EXPECT_EQ(SSL_read_ex(foreign_.ssl, &byte, 1, &done), 0);
  EXPECT_EQ(SSL_get_error(foreign_.ssl, 0), SSL_ERROR_ZERO_RETURN);
  Bytes into(10);
  EXPECT_EQ(stream_->records().read(into, done), TlsStep::kWantRead);
  SSL_shutdown(foreign_.ssl);
  EXPECT_EQ(stream_->records().read(into, done), TlsStep::kClosed);
  EXPECT_EQ(stream_->records().write(into, false, done), TlsStep::kFailed);
}

TEST_P(AgainstOpenSsl, AConnectionThatIsCutIsNotAnEnd) {
  connect();
  ::shutdown(sockets_.theirs, SHUT_WR);
  Bytes into(10);
  std::size_t done = 0;
  EXPECT_EQ(stream_->records().read(into, done), TlsStep::kFailed);
  EXPECT_NE(stream_->records().error().find("without an alert"), std::string::npos);
}

TEST_P(AgainstOpenSsl, AChangedBitEndsTheLinkAndThePeerHearsIt) {
  connect();
  const Bytes bytes = record_pattern(1'000, 3);
  std::size_t done = 0;
  ASSERT_EQ(SSL_write_ex(foreign_.ssl, bytes.data(), bytes.size(), &done), 1);
  Bytes record(2'000);
  const ssize_t size = ::recv(sockets_.ours, record.data(), record.size(), 0);
  ASSERT_GT(size, 1'000);
  record[500] ^= std::byte{1};
  ASSERT_EQ(::send(sockets_.theirs, record.data(), static_cast<std::size_t>(size), 0), size);
  Bytes into(2'000);
  EXPECT_EQ(stream_->records().read(into, done), TlsStep::kFailed);
  EXPECT_EQ(stream_->records().error(), "a record's tag is wrong");
  char byte = 0;
  EXPECT_EQ(SSL_read_ex(foreign_.ssl, &byte, 1, &done), 0);
  EXPECT_STREQ(ERR_reason_error_string(ERR_peek_error()), "sslv3 alert bad record mac");
  ERR_clear_error();
}

INSTANTIATE_TEST_SUITE_P(Suites, AgainstOpenSsl,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values("TLS_AES_128_GCM_SHA256",
                                                              "TLS_AES_256_GCM_SHA384",
                                                              "TLS_CHACHA20_POLY1305_SHA256")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Client" : "Server") +
                                  std::string(std::get<1>(info.param)).substr(4);
                         });

// A peer that holds the keys and seals what it likes.
class AgainstALiar : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kSuite = 0x1301;
  static constexpr std::size_t kRecordRoom = 20'000;

  AgainstALiar()
      : liar_(TlsKey::make(kSuite, secret(1), TlsKey::Use::kSeal).value()),
        records_(sockets_.ours, TlsKey::make(kSuite, secret(2), TlsKey::Use::kSeal).value(),
                 TlsKey::make(kSuite, secret(1), TlsKey::Use::kOpen).value(),
                 limits::kTlsKeyBytes) {}

  static TlsSecret secret(unsigned char of) {
    TlsSecret made;
    made.bytes.fill(of);
    made.size = 32;
    return made;
  }
  void put(ByteSpan bytes) {
    ASSERT_EQ(::send(sockets_.theirs, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  void put(std::uint8_t type, const Bytes& content) {
    Bytes record(content.size() + TlsKey::kOverheadBytes);
    liar_.seal(static_cast<TlsContent>(type), content, record.data());
    put(record);
  }
  TlsStep read() {
    Bytes into(kRecordRoom);
    std::size_t done = 0;
    return records_.read(into, done);
  }

  Sockets sockets_;
  TlsKey liar_;
  TlsRecords records_;
};

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes made;
  for (const int value : values) made.push_back(static_cast<std::byte>(value));
  return made;
}

TEST_F(AgainstALiar, RefusesWhatIsNeitherDataNorAKnownMessage) {
  const std::vector<std::pair<std::uint8_t, Bytes>> refused = {
      {20, bytes_of({1})},                  // a change of cipher, sealed
      {0, bytes_of({0, 0, 0})},             // nothing but padding
      {24, bytes_of({1})},                  // heartbeat
      {22, bytes_of({24, 0, 0, 1, 2})},     // a change of keys of no kind
      {22, bytes_of({24, 0, 0, 1})},        // cut short
      {22, bytes_of({24, 0, 0, 1, 0, 0})},  // with something behind it
      {22, bytes_of({4, 0, 0, 1, 0})},      // a session ticket
      {22, bytes_of({13, 0, 0, 0})},        // a request for a certificate
      {22, {}},                             //
      {21, bytes_of({2})},                  // half an alert
      {21, bytes_of({2, 40, 0})},           //
      {21, bytes_of({2, 40})},              // a whole one
  };
  for (const auto& [type, content] : refused) {
    Sockets sockets;
    TlsKey liar = TlsKey::make(kSuite, secret(1), TlsKey::Use::kSeal).value();
    TlsRecords records(sockets.ours, TlsKey::make(kSuite, secret(2), TlsKey::Use::kSeal).value(),
                       TlsKey::make(kSuite, secret(1), TlsKey::Use::kOpen).value(), 1 << 20);
    Bytes record(content.size() + TlsKey::kOverheadBytes);
    liar.seal(static_cast<TlsContent>(type), content, record.data());
    ASSERT_GT(::send(sockets.theirs, record.data(), record.size(), 0), 0);
    Bytes into(kRecordRoom);
    std::size_t done = 0;
    EXPECT_EQ(records.read(into, done), TlsStep::kFailed) << int{type} << " " << content.size();
    EXPECT_FALSE(records.error().empty());
  }
}

TEST_F(AgainstALiar, RefusesRecordsThatAreNotSealedOrTooLong) {
  for (const Bytes& header :
       {bytes_of({22, 3, 3, 0, 40}), bytes_of({20, 3, 3, 0, 1}), bytes_of({21, 3, 3, 0, 2}),
        bytes_of({23, 3, 1, 0, 40}), bytes_of({23, 3, 3, 0, 16}), bytes_of({23, 3, 3, 0, 0}),
        bytes_of({23, 3, 3, 0x41, 0x01}), bytes_of({23, 3, 3, 0xff, 0xff})}) {
    Sockets sockets;
    TlsRecords records(sockets.ours, TlsKey::make(kSuite, secret(2), TlsKey::Use::kSeal).value(),
                       TlsKey::make(kSuite, secret(1), TlsKey::Use::kOpen).value(), 1 << 20);
    ASSERT_GT(::send(sockets.theirs, header.data(), header.size(), 0), 0);
    Bytes into(kRecordRoom);
    std::size_t done = 0;
    EXPECT_EQ(records.read(into, done), TlsStep::kFailed);
  }
}

TEST_F(AgainstALiar, RecordsWithoutDataHaveTheirLimit) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 32; ++i) put(23, {});
    EXPECT_EQ(read(), TlsStep::kWantRead);
    put(23, bytes_of({1}));
    EXPECT_EQ(read(), TlsStep::kDone);
  }
  for (int i = 0; i < 33; ++i) {
    put(22, bytes_of({24, 0, 0, 1, 0}));
    ASSERT_TRUE(liar_.update().ok());
  }
  EXPECT_EQ(read(), TlsStep::kFailed);
}

TEST_F(AgainstALiar, ARecordIsTakenOnceAndInItsOrder) {
  Bytes first(10 + TlsKey::kOverheadBytes);
  liar_.seal(TlsContent::kData, Bytes(10), first.data());
  put(first);
  EXPECT_EQ(read(), TlsStep::kDone);
  put(first);
  EXPECT_EQ(read(), TlsStep::kFailed);
}

TEST_F(AgainstALiar, ARecordMayComeByteByByte) {
  Bytes record(100 + TlsKey::kOverheadBytes);
  liar_.seal(TlsContent::kData, Bytes(100), record.data());
  for (std::size_t i = 0; i + 1 < record.size(); ++i) {
    put(ByteSpan(record).subspan(i, 1));
    EXPECT_EQ(read(), TlsStep::kWantRead);
  }
  put(ByteSpan(record).last(1));
  EXPECT_EQ(read(), TlsStep::kDone);
}

}  // namespace
}  // namespace hearth
