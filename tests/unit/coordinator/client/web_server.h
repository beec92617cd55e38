// A web server on this machine for tests of clients.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hearth::client {

// One request at a time, each answered by a function from its head to the whole answer.
class WebServer {
 public:
  explicit WebServer(std::function<std::string(const std::string& head)> answer)
      : answer_(std::move(answer)),
        acceptor_(io_, boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        thread_([this] { serve(); }) {}
  ~WebServer() {
    stopping_ = true;
    boost::system::error_code ignored;
    boost::asio::ip::tcp::socket wake(io_);
    wake.connect(acceptor_.local_endpoint(), ignored);
    wake.close(ignored);
    thread_.join();
  }
  std::string address() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  std::vector<std::string> heads() {
    const std::lock_guard lock(mutex_);
    return heads_;
  }

 private:
  void serve() {
    while (!stopping_) {
      boost::system::error_code error;
      boost::asio::ip::tcp::socket socket(io_);
      acceptor_.accept(socket, error);
      boost::asio::streambuf buffer;
      const std::size_t size = boost::asio::read_until(socket, buffer, "\r\n\r\n", error);
      if (error) continue;
      const std::string head(boost::asio::buffers_begin(buffer.data()),
                             boost::asio::buffers_begin(buffer.data()) + static_cast<long>(size));
      {
        const std::lock_guard lock(mutex_);
        heads_.push_back(head);
      }
      boost::asio::write(socket, boost::asio::buffer(answer_(head)), error);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::mutex mutex_;
  std::vector<std::string> heads_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

inline std::string reply(const std::string& status, const std::string& headers,
                         const std::string& body, const std::string& head) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         (head.starts_with("HEAD") ? "" : body);
}

}  // namespace hearth::client
