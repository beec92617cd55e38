#include <algorithm>

#include "coordinator/http/handlers.h"
#include "coordinator/http/swarm_query.h"

namespace hearth::coordinator::http {

void handle_live(const std::shared_ptr<Api>&, HttpRequest, std::shared_ptr<Exchange> exchange) {
  exchange->respond(json_response(R"({"status":"ok"})"));
}

void handle_ready(const std::shared_ptr<Api>& api, HttpRequest,
                  std::shared_ptr<Exchange> exchange) {
  respond_with_status(api, std::move(exchange), [](const SwarmStatus& status) {
    if (status.ready) return json_response(R"({"status":"ok"})");
    const auto nodes = std::count_if(status.nodes.begin(), status.nodes.end(),
                                     [](const NodeStatus& node) { return node.state != "lost"; });
    return error_response(from_coordinator(
        {ErrorCode::kUnavailable,
         "no pipeline serves: " + std::to_string(nodes) + " workers are registered, " +
             std::to_string(status.stages_wanted) + " free ones make a pipeline"},
        1));
  });
}

void handle_metrics(const std::shared_ptr<Api>& api, HttpRequest,
                    std::shared_ptr<Exchange> exchange) {
  respond_with_status(api, std::move(exchange), [api](const SwarmStatus& status) {
    HttpResponse out;
    out.content_type = Metrics::kContentType;
    out.body = api->metrics.expose(status);
    return out;
  });
}

}  // namespace hearth::coordinator::http
