#include "coordinator/http/wire/refusal.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <utility>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kTime = std::chrono::seconds(2);
constexpr std::size_t kBytes = 1 * limits::kMiB;

}  // namespace

void Refusal::start(asio::ip::tcp::socket socket, std::string answer, Refusals& all) {
  std::erase_if(all.open, [](const auto& one) { return one.expired(); });
  if (all.open.size() >= Refusals::kMax) {
    if (const auto oldest = all.open.front().lock()) oldest->close();
    all.open.pop_front();
  }
  const auto refusal = std::make_shared<Refusal>(std::move(socket), std::move(answer));
  all.open.push_back(refusal);
  refusal->deadline_.expires_after(kTime);
  refusal->deadline_.async_wait([weak = std::weak_ptr(refusal)](const error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->close();
  });
  asio::async_write(refusal->socket_, asio::buffer(refusal->answer_),
                    [self = refusal](const error_code& error, std::size_t) {
                      if (error) return self->close();
                      error_code ignored;
                      self->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                      self->answer_.assign(4 * limits::kKiB, '\0');
                      self->drain();
                    });
}

Refusal::Refusal(asio::ip::tcp::socket socket, std::string answer)
    : socket_(std::move(socket)), deadline_(socket_.get_executor()), answer_(std::move(answer)) {}

void Refusal::close() {
  error_code ignored;
  deadline_.cancel();
  socket_.close(ignored);
}

void Refusal::drain() {
  socket_.async_read_some(asio::buffer(answer_),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->drained_ += bytes;
                            if (error || self->drained_ > kBytes) return self->close();
                            self->drain();
                          });
}

}  // namespace hearth::coordinator::http
