#include "coordinator/http/wire/write_queue.h"

#include <gtest/gtest.h>

namespace hearth::coordinator::http {
namespace {

std::string drained(WriteQueue& queue) {
  std::string all;
  for (std::string_view next = queue.next(); !next.empty(); next = queue.next()) {
    all += next;
    queue.written(next.size());
  }
  return all;
}

TEST(WriteQueueTest, OneWriteIsOutstandingAndTheRestKeepsItsOrder) {
  WriteQueue queue(1'000);
  queue.push("HTTP/1.1 100 Continue\r\n\r\n");
  const std::string_view first = queue.next();
  ASSERT_EQ(first, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(queue.writing());
  queue.push("HTTP/1.1 200 OK\r\n");  // the answer comes before the first write is over
  queue.written(5);
  EXPECT_FALSE(queue.writing());
  EXPECT_EQ(queue.next(), "1.1 100 Continue\r\n\r\n") << "the rest of it comes first";
  queue.written(20);
  EXPECT_EQ(drained(queue), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(queue.next(), "");
  EXPECT_FALSE(queue.writing()) << "an empty write starts nothing";
}

TEST(WriteQueueTest, RefusesOnlyWhenItsLimitIsReached) {
  WriteQueue queue(10);
  EXPECT_TRUE(queue.push("123456789"));
  EXPECT_TRUE(queue.push("0")) << "nine bytes are fewer than ten";
  EXPECT_FALSE(queue.push("x")) << "ten are not";
  EXPECT_EQ(drained(queue), "1234567890");
  EXPECT_EQ(drained(queue), "");
  EXPECT_TRUE(queue.push(std::string(1000, 'y'))) << "an event may be of any size";
  EXPECT_TRUE(queue.push("done")) << "and what follows it at once still has room";
  EXPECT_TRUE(queue.push(std::string(1000, 'z')));
  EXPECT_FALSE(queue.push("x")) << "but large events are not without number";
  WriteQueue none(0);
  EXPECT_FALSE(none.push("x"));
}

}  // namespace
}  // namespace hearth::coordinator::http
