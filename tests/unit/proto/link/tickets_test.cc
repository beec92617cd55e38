#include "proto/link/tickets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/limits.h"

namespace hearth {
namespace {

Ticket ticket_of(std::uint32_t number) {
  Ticket ticket;
  ticket.bytes[0] = static_cast<std::byte>(number & 0xffU);
  ticket.bytes[1] = static_cast<std::byte>(number >> 8U);
  ticket.bytes[31] = std::byte{7};
  return ticket;
}

TEST(TicketBook, ATicketIsGoodOnceAndForAWhile) {
  TicketBook book;
  const TimePoint now{std::chrono::seconds(100)};
  int taken = 0;
  ASSERT_TRUE(book.expect(
                      ticket_of(1), [&](int) { ++taken; }, now)
                  .ok());
  EXPECT_FALSE(book.expect(
                       ticket_of(1), [](int) {}, now)
                   .ok())
      << "twice the same";
  EXPECT_EQ(book.take(ticket_of(2), now), nullptr);
  const auto hand = book.take(ticket_of(1), now);
  ASSERT_NE(hand, nullptr);
  hand(-1);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(book.take(ticket_of(1), now), nullptr) << "used";
  ASSERT_TRUE(book.expect(
                      ticket_of(3), [](int) {}, now)
                  .ok());
  const TimePoint late = now + std::chrono::seconds(limits::kTicketSeconds);
  EXPECT_EQ(book.take(ticket_of(3), late), nullptr);
  EXPECT_EQ(book.size(), 0U);
}

TEST(TicketBook, HoldsSoManyAndNoMore) {
  TicketBook book;
  const TimePoint now{std::chrono::seconds(100)};
  for (std::uint32_t i = 0; i < limits::kTickets; ++i) {
    ASSERT_TRUE(book.expect(
                        ticket_of(i), [](int) {}, now)
                    .ok());
  }
  const Status full = book.expect(
      ticket_of(limits::kTickets), [](int) {}, now);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kNoCapacity);
  book.forget(ticket_of(5));
  EXPECT_TRUE(book.expect(
                      ticket_of(limits::kTickets), [](int) {}, now)
                  .ok());
}

struct Ends {
  Ends() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, at.data()), 0); }
  ~Ends() {
    for (const int end : at) ::close(end);
  }
  void say(ByteSpan bytes) const {
    EXPECT_EQ(::send(at[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::array<int, 2> at{};
};

TEST(TicketReader, ReadsATicketInAnyPiecesAndNoByteBehindIt) {
  Bytes head = ticket_head(ticket_of(9));
  head.push_back(std::byte{0x16});
  for (std::size_t cut = 0; cut < head.size(); ++cut) {
    const Ends ends;
    TicketReader reader;
    EXPECT_EQ(reader.read(ends.at[1]), TicketReader::Step::kMore);
    ends.say(ByteSpan(head).first(cut));
    if (cut + 1 < head.size()) {
      EXPECT_EQ(reader.read(ends.at[1]), TicketReader::Step::kMore);
    }
    ends.say(ByteSpan(head).subspan(cut));
    TicketReader::Step step = reader.read(ends.at[1]);
    if (step == TicketReader::Step::kMore) step = reader.read(ends.at[1]);
    ASSERT_EQ(step, TicketReader::Step::kTicket) << cut;
    EXPECT_EQ(reader.ticket(), ticket_of(9));
    std::byte next{};
    EXPECT_EQ(::recv(ends.at[1], &next, 1, 0), 1);
    EXPECT_EQ(next, std::byte{0x16});
  }
}

TEST(TicketReader, LeavesOtherConnectionsUnread) {
  const Ends ends;
  ends.say(Bytes{std::byte{0x16}, std::byte{0x03}});
  TicketReader reader;
  EXPECT_EQ(reader.read(ends.at[1]), TicketReader::Step::kOther);
  std::array<std::byte, 2> bytes{};
  EXPECT_EQ(::recv(ends.at[1], bytes.data(), bytes.size(), 0), 2);
  EXPECT_EQ(bytes[0], std::byte{0x16});
}

TEST(TicketReader, SeesTheEnd) {
  const Ends ends;
  ends.say(Bytes{kTicketByte});
  EXPECT_EQ(::shutdown(ends.at[0], SHUT_WR), 0);
  TicketReader reader;
  TicketReader::Step step = reader.read(ends.at[1]);
  if (step == TicketReader::Step::kMore) step = reader.read(ends.at[1]);
  EXPECT_EQ(step, TicketReader::Step::kEnd);
}

}  // namespace
}  // namespace hearth
