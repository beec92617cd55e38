#include "coordinator/client/verified.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::client {
namespace {

using Json = nlohmann::json;

std::string place_of(const Json& place) {
  return message_of("stage ", place.at("stage").get<std::uint32_t>() + 1, ", window ",
                    place.at("window").get<std::uint32_t>(), " (entry ",
                    place.at("entry").get<std::uint64_t>(), " of the ledger)");
}

std::string retracted_text(const Json& place) {
  const std::string where = place_of(place) + " has a false result";
  const Json from = place.value("from_token", Json());
  if (from.is_null()) return "retracted: " + where + "; the answer's tokens are right";
  return "retracted from token " + std::to_string(from.get<std::uint32_t>()) + " on: " + where;
}

std::string verified_text(const Json& verified) {
  const Json windows = verified.value("windows", Json::array());
  std::optional<std::uint32_t> others;
  for (const Json& window : windows) {
    const auto count = window.at("others").get<std::uint32_t>();
    others = std::min(others.value_or(count), count);
  }
  const std::string by = "by at least " + counted(others.value_or(0), "other node");
  if (windows.size() == 1) {
    return "verified: the answer was recomputed " + by + ", with the same result";
  }
  return "verified: all " + std::to_string(windows.size()) + " windows were recomputed, each " +
         by + ", with the same result";
}

std::string sentence_of(const std::string& state, const Json& hearth) {
  const Json& verified = hearth.at("verified");
  if (state == "retracted") return retracted_text(hearth.at("retracted").at(0));
  if (state == "disputed") {
    return "in dispute: an auditor has another result for " +
           place_of(verified.at("disputed").at(0)) + "; there is no verdict yet";
  }
  if (state == "unverified") return "not verified: " + verified.value("why", "");
  if (state == "verified") return verified_text(verified);
  return "";
}

}  // namespace

Verified read_verified(const Json& hearth) {
  Verified out;
  if (!hearth.contains("verified")) return out;
  out.state = hearth.at("verified").at("state");
  out.sentence = sentence_of(out.state, hearth);
  for (const char* name : {"verified", "retracted", "corrected"}) {
    if (hearth.contains(name)) out.object[name] = hearth[name];
  }
  for (const Json& one : hearth.value("corrected", Json::array())) {
    if (one.at("choice") != 0) continue;
    out.right = Verified::Right{one.at("text"), one.value("token_ids", std::vector<TokenId>()),
                                one.value("finish_reason", "")};
  }
  return out;
}

}  // namespace hearth::client
