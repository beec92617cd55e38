// One HTTP request, and ResponseWriter, through which a handler answers it. Free of sockets.
// Everything on the socket thread.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/http/dialects/answer_writer.h"
#include "coordinator/request.h"

namespace hearth::coordinator::http {

struct HttpRequest {
  std::string method;
  std::string path;  // percent-decoded, without query
  std::string body;
  std::string id;  // x-request-id of the answer
  TimePoint arrived{};
  std::vector<std::string> models = {};  // models that the key may use; empty: all
  // The settings of the API key: the default of trust, and the lowest verify and min_level of its
  // requests.
  RequestPolicy policy = {};
  bool manages = false;  // its sender may use the routes of Access::kManage
  std::optional<std::string> idempotency_key = {};
  std::optional<std::string> last_event_id = {};
  Dialect dialect = Dialect::kOpenAi;  // the route's

  bool may_use(const std::string& model) const {
    return models.empty() || std::ranges::find(models, model) != models.end();
  }
};

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  unsigned status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HeaderFields headers = {};
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // Sends the whole answer; called once, and only without a stream.
  virtual void respond(HttpResponse response) = 0;
  // 200 and a first ping; another one after every silence: `: ping` of text/event-stream, a space
  // before the next line of application/x-ndjson.
  virtual void start_stream(StreamForm form, HeaderFields headers) = 0;
  virtual void send(std::string_view event) = 0;
  // Ends the body. `broken`: an error event was sent; the connection is closed as well.
  virtual void finish_stream(bool broken) = 0;
  // Called once when the connection ends before the answer has: the client closed it, or did not
  // read (limits::kHttpStreamBytes, kHttpSecondsWrite).
  virtual void on_gone(std::function<void()> callback) = 0;
  virtual bool gone() const = 0;
};

}  // namespace hearth::coordinator::http
