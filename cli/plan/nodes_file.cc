#include "cli/plan/nodes_file.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;
using placement::Link;
using placement::Node;
using placement::Problem;
using placement::RowSeconds;

// Text from the file, escaped for an error message.
std::string in_quotes(std::string_view text) {
  return Json(text.substr(0, limits::kNodeNameBytes))
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

Status check_keys(const Json& object, const std::string& whose,
                  std::initializer_list<std::string_view> known) {
  REQUIRE(object.is_object(), whose, " must be an object");
  for (const auto& [key, value] : object.items()) {
    REQUIRE(std::find(known.begin(), known.end(), key) != known.end(), whose, " has ",
            in_quotes(key), ", which is not a known field");
  }
  return ok_status();
}

Result<double> number_of(const Json& object, const std::string& whose, const char* key) {
  const auto found = object.find(key);
  REQUIRE(found != object.end() && found->is_number(), whose, " must have a number ", key);
  return found->get<double>();
}

Result<std::uint64_t> count_of(const Json& object, const std::string& whose, const char* key) {
  constexpr double kMost = 9'007'199'254'740'992.0;  // up to here a double is exact
  const auto found = object.find(key);
  if (found != object.end() && found->is_number_float()) {  // 8e9
    const double value = found->get<double>();
    const bool is_whole = value >= 0.0 && value <= kMost && std::trunc(value) == value;
    if (is_whole) return static_cast<std::uint64_t>(value);
  }
  REQUIRE(found != object.end() && found->is_number_unsigned(), whose, " must have a whole number ",
          key, ", 0 or more");
  return found->get<std::uint64_t>();
}

Result<std::string> text_of(const Json& object, const std::string& whose, const char* key) {
  const auto found = object.find(key);
  REQUIRE(found != object.end() && found->is_string(), whose, " must have a string ", key);
  const auto& text = found->get_ref<const std::string&>();
  REQUIRE(!text.empty() && text.size() <= limits::kNodeNameBytes, whose, ": ", key, " has ",
          text.size(), " bytes; it must have 1 to ", limits::kNodeNameBytes);
  return text;
}

Result<RowSeconds> pair_of(const Json& object, const std::string& whose, const char* key) {
  const auto found = object.find(key);
  REQUIRE(found != object.end() && found->is_array() && found->size() == 2 &&
              (*found)[0].is_number() && (*found)[1].is_number(),
          whose, " must have two numbers ", key, ", of one row and of a batch");
  return RowSeconds{(*found)[0].get<double>(), (*found)[1].get<double>()};
}

Result<Node> node_of(const Json& json, const placement::Model& model) {
  TRY_VOID(check_keys(json, "a node",
                      {"name", "memory_bytes", "kv_budget_bytes", "layer_seconds", "head_seconds",
                       "step_seconds", "weight_bytes_per_second", "island"}));
  Node node;
  TRY(node.name, text_of(json, "a node", "name"));
  const std::string whose = "node " + in_quotes(node.name);
  TRY(node.memory_bytes, count_of(json, whose, "memory_bytes"));
  REQUIRE(node.memory_bytes > 0, whose, ": memory_bytes must be above 0");
  if (json.contains("kv_budget_bytes")) {
    TRY(node.kv_budget_bytes, count_of(json, whose, "kv_budget_bytes"));
  }
  if (json.contains("step_seconds")) {
    TRY(node.step_seconds, number_of(json, whose, "step_seconds"));
  }
  if (!json.contains("weight_bytes_per_second")) {
    TRY(node.layer, pair_of(json, whose, "layer_seconds"));
    TRY(node.head, pair_of(json, whose, "head_seconds"));
    return node;
  }
  REQUIRE(!json.contains("layer_seconds") && !json.contains("head_seconds"), whose,
          " has both weight_bytes_per_second and seconds; give one of them");
  TRY(const RowSeconds rate, pair_of(json, whose, "weight_bytes_per_second"));
  REQUIRE(rate.one > 0.0 && rate.batch > 0.0, whose, ": weight_bytes_per_second must be above 0");
  const double layer = model.mean_read_bytes();
  const auto head = static_cast<double>(std::max(model.head_bytes, std::uint64_t{1}));
  node.layer = {layer / rate.one, layer / rate.batch};
  node.head = {head / rate.one, head / rate.batch};
  return node;
}

Result<Link> link_of(const Json& json, const std::string& whose) {
  Link link;
  TRY(link.delay_seconds, number_of(json, whose, "seconds"));
  TRY(link.bytes_per_second, number_of(json, whose, "bytes_per_second"));
  REQUIRE(link.bytes_per_second > 0.0, whose, ": bytes_per_second must be above 0");
  return link;
}

Status read_nodes(const Json& file, Problem& problem) {
  const auto nodes = file.find("nodes");
  REQUIRE(nodes != file.end() && nodes->is_array() && !nodes->empty() &&
              nodes->size() <= limits::kWorkers,
          "\"nodes\" must be a list of 1 to ", limits::kWorkers);
  for (const Json& json : *nodes) {
    TRY(Node node, node_of(json, problem.model));
    problem.nodes.push_back(std::move(node));
  }
  return ok_status();
}

Status read_islands(const Json& file, Problem& problem) {
  std::map<std::string, std::uint32_t> numbers;
  for (const Json& json : file.at("nodes")) {
    std::uint32_t island = placement::kNoIsland;
    if (json.contains("island")) {
      TRY(const std::string name, text_of(json, "a node", "island"));
      island = numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
    }
    problem.islands.push_back(island);
  }
  if (numbers.empty()) problem.islands.clear();
  return ok_status();
}

Status read_links(const Json& file, Problem& problem) {
  const std::size_t count = problem.nodes.size();
  Link other;
  if (const auto given = file.find("link"); given != file.end()) {
    TRY_VOID(check_keys(*given, "\"link\"", {"seconds", "bytes_per_second"}));
    TRY(other, link_of(*given, "\"link\""));
  }
  problem.links.assign(count * count, other);
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(places.emplace(problem.nodes[i].name, i).second, "two nodes have the name ",
            in_quotes(problem.nodes[i].name));
  }
  const auto links = file.find("links");
  if (links == file.end()) return ok_status();
  REQUIRE(links->is_array() && links->size() <= count * count,
          "\"links\" must be a list of at most ", count * count, " links");
  std::vector<bool> given(count * count);
  for (const Json& json : *links) {
    TRY_VOID(check_keys(json, "a link", {"from", "to", "seconds", "bytes_per_second"}));
    TRY(const std::string from, text_of(json, "a link", "from"));
    TRY(const std::string to, text_of(json, "a link", "to"));
    const auto begin = places.find(from);
    const auto end = places.find(to);
    REQUIRE(begin != places.end() && end != places.end(), "a link from ", in_quotes(from), " to ",
            in_quotes(to), " names a node that is not in \"nodes\"");
    REQUIRE(begin != end, "a link from ", in_quotes(from), " to itself: remove it");
    const std::string whose = "the link from " + in_quotes(from) + " to " + in_quotes(to);
    const std::size_t place = begin->second * count + end->second;
    REQUIRE(!given[place], whose, " is listed twice");
    given[place] = true;
    TRY(problem.links[place], link_of(json, whose));
  }
  return ok_status();
}

// `twice`: a key that some object has twice, if there is one.
Json parse(const std::string& json, std::optional<std::string>& twice) {
  std::vector<std::set<std::string>> objects;
  const auto seen = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) objects.emplace_back();
    if (event == Json::parse_event_t::object_end) objects.pop_back();
    if (event == Json::parse_event_t::key) {
      auto key = parsed.get<std::string>();
      if (!objects.back().insert(key).second) twice = std::move(key);
    }
    return true;
  };
  return Json::parse(json, seen, false);
}

}  // namespace

Result<Problem> read_plan_nodes(const std::string& json, placement::Model model) {
  std::optional<std::string> key;
  const Json file = parse(json, key);
  REQUIRE(!file.is_discarded(), "the file of nodes is not valid JSON");
  REQUIRE(!key, "an object has ", in_quotes(*key), " twice");
  TRY_VOID(check_keys(file, "the file", {"batch_rows", "nodes", "links", "link"}));
  Problem problem;
  problem.model = std::move(model);
  problem.stages = problem.model.is_whole ? 1 : 0;
  if (file.contains("batch_rows")) {
    TRY(const std::uint64_t rows, count_of(file, "the file", "batch_rows"));
    REQUIRE(rows <= limits::kBatchRows, "a batch of ", rows, " rows; batch_rows is limited to ",
            limits::kBatchRows);
    problem.batch_rows = static_cast<std::uint32_t>(rows);
  }
  TRY_VOID(read_nodes(file, problem));
  TRY_VOID(read_islands(file, problem));
  TRY_VOID(read_links(file, problem));
  TRY_VOID(placement::check(problem));
  return problem;
}

}  // namespace hearth::cli
