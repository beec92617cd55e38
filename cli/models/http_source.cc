#include "cli/models/http_source.h"

#include "cli/terminal/interrupt.h"

namespace hearth::cli {

std::unique_ptr<client::HttpClient> HttpSource::take_client() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<client::HttpClient>(interrupted);
  auto client = std::move(idle_.back());
  idle_.pop_back();
  return client;
}

Status HttpSource::read(std::uint64_t begin, std::uint64_t end, const Sink& sink) {
  client::HttpClient::Options options;
  options.headers = remote_.headers;
  options.follow_redirects = true;
  options.stall = stall_;
  auto client = take_client();
  const auto reply =
      client->get_range(remote_.url, begin, end, file_bytes_, options,
                        [&](std::string_view bytes) { return sink(as_bytes(bytes)); });
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
  }
  if (!reply.ok()) return reply.error();
  const long status = reply->status;
  if (status < 400) return ok_status();
  const bool passing = status >= 500 || status == 408 || status == 429;
  return Error{passing ? ErrorCode::kUnavailable : ErrorCode::kNotFound,
               "the server answers with status " + std::to_string(status)};
}

}  // namespace hearth::cli
