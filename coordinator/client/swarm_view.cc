#include "coordinator/client/swarm_view.h"

#include <nlohmann/json.hpp>

#include "coordinator/client/parse_reply.h"

namespace hearth::client {
namespace {

using Json = nlohmann::json;

// 0 for an absent field, because other versions may lack it, and for null, which JSON writes for
// NaN.
double number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return 0.0;
  return found->get<double>();
}

template <typename T>
T count_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  if (!found->is_number_unsigned()) {
    throw Json::type_error::create(302, std::string(key) + " is not a count", &object);
  }
  return found->get<T>();
}

LayerRange range_of(const Json& layers) {
  if (!layers.is_array() || layers.size() != 2 || !layers[0].is_number_unsigned() ||
      !layers[1].is_number_unsigned() || layers[0] > layers[1]) {
    throw Json::type_error::create(302, "layers are not a range", &layers);
  }
  return {layers[0], layers[1]};
}

// The readings of a node's GPU; empty from a server of an older version.
CardReading card_of(const Json& card) {
  CardReading reading;
  if (!card.is_object()) throw Json::type_error::create(302, "card must be an object", &card);
  const auto take = [&]<typename T>(const char* name, std::optional<T>& figure) {
    if (card.contains(name)) figure = count_of<T>(card, name);
  };
  take("celsius", reading.celsius);
  if (card.contains("watts")) reading.watts = number_of(card, "watts");
  take("busy_percent", reading.busy_percent);
  take("memory_used", reading.memory_used);
  take("foreign_memory", reading.foreign_memory);
  return reading;
}

std::optional<Away> away_of(const Json& node) {
  const auto found = node.find("away");
  if (found == node.end()) return std::nullopt;
  const Json until = found->value("until", Json());
  if (!until.is_null() && !until.is_number_integer()) {
    throw Json::type_error::create(302, "until is not a time", &until);
  }
  return Away{found->value("drain", false), until.is_null() ? 0 : until.get<std::int64_t>(),
              found->value("why", "")};
}

std::optional<NodeView::Standing> standing_of(const Json& node) {
  const auto found = node.find("standing");
  if (found == node.end()) return std::nullopt;
  return NodeView::Standing{found->at("level"), count_of<std::uint64_t>(*found, "audited_right"),
                            count_of<std::uint64_t>(*found, "faults"),
                            found->value("tombstoned", false),
                            count_of<std::uint64_t>(*found, "disputes")};
}

NodeView node_of(const Json& json, const std::map<std::uint64_t, std::uint64_t>& page_tokens) {
  NodeView node;
  node.name = json.at("name");
  node.state = json.at("state");
  node.away = away_of(json);
  node.isa = json.at("isa");
  node.threads = count_of<std::uint32_t>(json, "threads");
  const auto epoch = count_of<std::uint64_t>(json, "epoch");
  node.placed = epoch != 0;
  node.stage = count_of<std::uint32_t>(json, "stage");
  if (json.contains("ranks")) {
    node.rank = count_of<std::uint32_t>(json, "rank");
    node.ranks = count_of<std::uint32_t>(json, "ranks");
  }
  node.layers = range_of(json.at("layers"));
  const Json held = json.value("held", Json::object());
  node.held_bytes = count_of<std::uint64_t>(held, "bytes");
  node.held_total = count_of<std::uint64_t>(held, "bytes_total");
  node.weight_bytes = count_of<std::uint64_t>(json, "weight_bytes");
  node.draft_bytes = count_of<std::uint64_t>(json, "draft_bytes");
  node.rows_total = count_of<std::uint64_t>(json, "rows_total");
  node.kv_tokens_used = count_of<std::uint64_t>(json, "kv_tokens_used");
  if (const auto page = page_tokens.find(epoch); page != page_tokens.end()) {
    node.kv_tokens = page->second * count_of<std::uint32_t>(json, "kv_pages");
    node.kv_tokens_kept = page->second * count_of<std::uint32_t>(json, "kv_pages_kept");
  }
  node.rows_per_second = number_of(json, "rows_per_second");
  node.busy_ratio = number_of(json, "busy_ratio");
  node.device = json.value("device", "");
  node.spare = json.value("spare", "");
  node.slow = json.value("slow", "");
  node.barred = json.value("barred", "");
  node.unreceipted = json.value("unreceipted", "");
  node.unreceipted_windows = count_of<std::uint64_t>(json, "unreceipted_windows");
  node.owner = json.value("owner", "");
  node.newcomer = json.value("newcomer", "");
  node.standing = standing_of(json);
  node.card = card_of(json.value("card", Json::object()));
  return node;
}

std::vector<SwarmView::Drafts> drafts_of(const Json& state) {
  std::vector<SwarmView::Drafts> out;
  const Json drafts = state.value("totals", Json::object()).value("drafts", Json::object());
  for (const auto& [kind, counts] : drafts.items()) {
    out.push_back({kind, count_of<std::uint64_t>(counts, "drafted"),
                   count_of<std::uint64_t>(counts, "accepted")});
  }
  return out;
}

using PageTokens = std::map<std::uint64_t, std::uint64_t>;  // by epoch

PageTokens page_tokens_of(const Json& state) {
  PageTokens out;
  for (const Json& pipeline : state.at("pipelines")) {
    out[count_of<std::uint64_t>(pipeline, "epoch")] =
        count_of<std::uint32_t>(pipeline, "kv_page_tokens");
  }
  return out;
}

// An older server sends none.
std::uint64_t running_most_of(const Json& state) {
  std::uint64_t most = 0;
  for (const Json& pipeline : state.at("pipelines")) {
    if (!pipeline.contains("sequences") || pipeline.value("state", "") != "serving") continue;
    most += count_of<std::uint32_t>(pipeline, "sequences");
  }
  return most;
}

std::optional<SwarmView::Store> store_of(const Json& state) {
  const Json store = state.value("store", Json());
  if (!store.is_object()) return std::nullopt;
  const Json& leader = store.at("leader");
  SwarmView::Store out{store.at("url"), count_of<std::uint64_t>(store, "epoch"), leader.at("name"),
                       leader.at("api")};
  for (const Json& standby : store.at("standbys")) out.standbys.push_back(standby.at("name"));
  out.away = store.value("away", "");
  return out;
}

// An older server sends none.
std::vector<LinkView> links_of(const Json& state) {
  std::vector<LinkView> links;
  for (const Json& one : state.value("links", Json::array())) {
    links.push_back({one.at("from"), one.at("to"), one.at("route"), one.value("relay", ""),
                     number_of(one, "seconds"), number_of(one, "bytes_per_second")});
  }
  return links;
}

// A server with several models says which one each node and each pipeline has.
void add_nodes(const Json& state, SwarmView& view) {
  const auto model_of = [&view](const Json& one) { return one.value("model", view.model); };
  view.pipelines = std::ranges::count_if(
      state.at("pipelines"), [&](const Json& one) { return model_of(one) == view.model; });
  const PageTokens page_tokens = page_tokens_of(state);
  for (const Json& node : state.at("nodes")) {
    view.nodes.push_back(node_of(node, page_tokens));
    if (model_of(node) != view.model) view.nodes.back().beside = model_of(node);
  }
}

SwarmView view_of(const Json& state) {
  SwarmView view;
  view.version = state.value("version", "");
  view.cluster = state.value("cluster", "");
  const Json& model = state.at("model");
  view.model = model.at("id");
  view.layers = count_of<std::uint32_t>(model, "layers");
  view.model_bytes = count_of<std::uint64_t>(model, "file_bytes");
  view.ready = state.at("ready");
  view.missing = state.value("missing", "");
  view.joinable = state.value("joinable", false);
  const Json ledger = state.value("ledger", Json::object());
  view.ledger_fault = ledger.value("fault", "");
  if (const Json ahead = ledger.value("ahead_seconds", Json()); ahead.is_number_integer()) {
    view.ledger_ahead_seconds = ahead.get<std::int64_t>();
  }
  if (ledger.contains("free_bytes")) {
    view.ledger_free_bytes = count_of<std::uint64_t>(ledger, "free_bytes");
  }
  if (const Json credits = state.value("credits", Json()); credits.is_object()) {
    view.credits = {credits.at("balance"), credits.at("reserved")};
  }
  view.stages_wanted = count_of<std::uint32_t>(state, "stages_wanted");
  view.running = count_of<std::uint32_t>(state, "running");
  view.running_most = running_most_of(state);
  view.waiting = count_of<std::uint32_t>(state, "waiting");
  view.tokens_per_second = number_of(state, "tokens_per_second");
  view.prompt_tokens_per_second = number_of(state, "prompt_tokens_per_second");
  const Json power = state.value("power", Json::object());
  view.watts = number_of(power, "watts");
  view.power_nodes = count_of<std::uint32_t>(power, "nodes");
  view.drafts = drafts_of(state);
  view.store = store_of(state);
  add_nodes(state, view);
  for (const Json& gap : state.value("uncovered", Json::array())) {
    view.gaps.push_back({range_of(gap.at("layers")), count_of<std::uint64_t>(gap, "weight_bytes"),
                         count_of<std::uint64_t>(gap, "memory_bytes")});
  }
  view.links = links_of(state);
  for (const Json& one : state.value("wrong_bytes", Json::array())) {
    view.accused.push_back({one.at("node"), count_of<std::uint32_t>(one, "accusers"),
                            one.value("item", ""), one.value("out", false)});
  }
  if (const Json audits = state.value("audits", Json::object()); !audits.empty()) {
    const auto count = [&](const char* key) { return count_of<std::uint64_t>(audits, key); };
    const Json referee = audits.value("referee", Json::object());
    view.audits = {count("agreed"),
                   count("disputed"),
                   count("missed"),
                   count("waiting"),
                   audits.value("why_waiting", ""),
                   count("open_disputes"),
                   count("ended_disputes"),
                   count("unjudged_disputes"),
                   count_of<std::uint64_t>(referee, "missed"),
                   referee.value("why_missed", "")};
    if (const Json none = audits.value("unreceipted", Json::object()); !none.empty()) {
      view.audits.unreceipted = count_of<std::uint64_t>(none, "windows");
      const Json by_key = none.value("by_key", Json::object());
      for (const auto& [key, windows] : by_key.items()) {
        view.audits.unreceipted_by_key[key] = count_of<std::uint64_t>(by_key, key.c_str());
      }
    }
  }
  return view;
}

}  // namespace

std::string store_text(const SwarmView::Store& store) {
  std::string standbys;
  for (const std::string& one : store.standbys) standbys += (standbys.empty() ? "" : " and ") + one;
  return message_of(store.url, "; the coordinator on ", store.leader, " (API ", store.api,
                    ") leads in epoch ", store.epoch, "; ",
                    standbys.empty() ? "there is no standby" : "standby: ", standbys,
                    store.away.empty() ? "" : "; ", store.away);
}

Result<SwarmView> read_swarm_view(const std::string& json) {
  const Json state = parse_reply(json);
  REQUIRE(state.is_object(),
          "the server's state is not a JSON object; check that --host names a Hearth server");
  try {
    return view_of(state);
  } catch (const Json::exception& bad) {
    return Error::invalid("the server's state is of another version: ", bad.what());
  }
}

}  // namespace hearth::client
