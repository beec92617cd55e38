#include "coordinator/http/api/handlers.h"
#include "coordinator/http/routes/swarm_query.h"

namespace hearth::coordinator::http {

void handle_live(const std::shared_ptr<Api>&, HttpRequest, std::shared_ptr<ResponseWriter> writer) {
  writer->respond(json_response(R"({"status":"ok"})"));
}

void handle_ready(const std::shared_ptr<Api>& api, HttpRequest,
                  std::shared_ptr<ResponseWriter> writer) {
  respond_with_status(api, std::move(writer), [](const SwarmStatus& status) {
    if (status.ready) return json_response(R"({"status":"ok"})");
    return error_response(from_coordinator({ErrorCode::kUnavailable, status.missing}, 1));
  });
}

void handle_metrics(const std::shared_ptr<Api>& api, HttpRequest,
                    std::shared_ptr<ResponseWriter> writer) {
  respond_with_status(api, std::move(writer), [api](const SwarmStatus& status) {
    HttpResponse out;
    out.content_type = Metrics::kContentType;
    out.body = api->metrics.expose(status, api->options.ledger);
    return out;
  });
}

}  // namespace hearth::coordinator::http
