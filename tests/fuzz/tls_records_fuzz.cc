// A peer that holds the keys: the input says which records it seals, of which type and content,
// what it changes in them, and how much room the reader has. What is read is a prefix of the data
// that was sealed and not changed.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "proto/link/tls_records.h"

namespace {

using namespace hearth;

TlsKey key_of(TlsKey::Use use) {
  TlsSecret secret;
  secret.bytes.fill(7);
  secret.size = 32;
  return TlsKey::make(0x1301, secret, use).value();
}

// One record a round: how long, of which type, and where a byte is changed; 5 bytes of input.
struct Round {
  std::size_t size;
  std::uint8_t type;
  std::size_t change;  // beyond the record: nothing
  std::byte content;
};

// False when the reader has ended.
bool read_all(TlsRecords& records, std::size_t room, const Bytes& sealed, std::size_t& got) {
  Bytes into(room);
  std::size_t done = 0;
  TlsStep step = TlsStep::kDone;
  while ((step = records.read(into, done)) == TlsStep::kDone) {
    INVARIANT(done > 0 && done <= room && got + done <= sealed.size() &&
                  std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(done),
                             sealed.begin() + static_cast<std::ptrdiff_t>(got)),
              "what is read was written");
    got += done;
  }
  INVARIANT(step != TlsStep::kFailed || !records.error().empty(), "a failure says why");
  return step == TlsStep::kWantRead;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  int sockets[2];
  INVARIANT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0, "a socket pair");
  TlsKey peer = key_of(TlsKey::Use::kSeal);
  TlsRecords records(sockets[0], key_of(TlsKey::Use::kSeal), key_of(TlsKey::Use::kOpen), 1 << 20);
  const std::size_t room = 1 + 67u * data[0];
  Bytes sealed;
  std::size_t got = 0;
  bool open = true;
  bool waiting = false;
  for (std::size_t at = 1; at + 5 <= size && open; at += 5) {
    const Round round = {data[at] * 64u + data[at + 1] % 64u, data[at + 2],
                         data[at + 3] * 80u + data[at + 4], static_cast<std::byte>(data[at + 4])};
    const Bytes content(std::min(round.size, TlsKey::kContentBytes), round.content);
    Bytes record(content.size() + TlsKey::kOverheadBytes);
    // Most are data or messages; the rest of the types by their number.
    const std::uint8_t type = round.type < 128 ? 23 : round.type < 192 ? 22 : round.type;
    peer.seal(static_cast<TlsContent>(type), content, record.data());
    if (round.change < record.size()) {
      record[round.change] ^= std::byte{0x40};
    } else if (type == 23) {
      sealed.insert(sealed.end(), content.begin(), content.end());
    }
    std::size_t sent = 0;
    while (sent < record.size() && open) {
      const ssize_t now = ::send(sockets[1], record.data() + sent, record.size() - sent, 0);
      if (now > 0) sent += static_cast<std::size_t>(now);
      open = read_all(records, room, sealed, got);
    }
    // A changed length may wait for more, and then takes what follows for its own.
    const bool changed = round.change < record.size();
    waiting = waiting || round.change == 3 || round.change == 4;
    INVARIANT(!open || !changed || waiting, "a changed record ends the link");
  }
  ::close(sockets[0]);
  ::close(sockets[1]);
  return 0;
}
