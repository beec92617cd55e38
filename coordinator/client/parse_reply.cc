#include "coordinator/client/parse_reply.h"

#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace hearth::client {
namespace {

using Json = nlohmann::json;

constexpr int kReplyDepth = 2 * limits::kJsonDepth;  // a saved answer wraps a request of that depth

}  // namespace

Json parse_reply(std::string_view text) {
  bool deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json&) {
    const bool fits = depth <= kReplyDepth;
    deep = deep || !fits;
    return fits;
  };
  Json value = Json::parse(text, keep, false);
  return deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace hearth::client
