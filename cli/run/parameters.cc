#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "base/limits.h"
#include "cli/command/nearest.h"
#include "cli/command/values.h"
#include "cli/run/run.h"

namespace hearth::cli {
namespace {

struct Parameter {
  std::vector<std::string> names;  // the first is shown
  CLI::Validator range;
  std::function<void(RunOptions&, const std::string&)> set;  // a value within the range
  std::function<std::string(const RunOptions&)> show;
};

std::string parameter_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

Parameter real(std::vector<std::string> names, CLI::Validator range, float SamplingParams::*field) {
  return {std::move(names), std::move(range),
          [field](RunOptions& o, const std::string& v) {
            o.sampling.*field = std::strtof(v.c_str(), nullptr);
          },
          [field](const RunOptions& o) { return parameter_text(o.sampling.*field); }};
}

Parameter count(std::vector<std::string> names, std::int64_t high,
                std::uint32_t SamplingParams::*field) {
  return {std::move(names), whole_number(0, high),
          [field](RunOptions& o, const std::string& v) {
            o.sampling.*field = static_cast<std::uint32_t>(std::strtoul(v.c_str(), nullptr, 10));
          },
          [field](const RunOptions& o) { return std::to_string(o.sampling.*field); }};
}

Parameter seed() {
  using Limits = std::numeric_limits<std::int64_t>;
  return {
      {"seed"},
      whole_number(Limits::min(), Limits::max()).description("a whole number"),
      [](RunOptions& o, const std::string& v) { o.seed = std::strtoll(v.c_str(), nullptr, 10); },
      [](const RunOptions& o) { return o.seed ? std::to_string(*o.seed) : "random"; }};
}

Parameter stop() {
  return {
      {"stop"},
      text_within(limits::kStopStringBytes).description("text to end before; empty: remove all"),
      [](RunOptions& o, const std::string& v) { o.stop.push_back(v); },
      [](const RunOptions& o) {
        return o.stop.empty() ? "none" : boost::algorithm::join(o.stop, ", ");
      }};
}

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = {
      real({"temperature", "temp"}, number(0, 100), &SamplingParams::temperature),
      count({"top_k"}, std::numeric_limits<std::int32_t>::max(), &SamplingParams::top_k),
      real({"top_p"}, number(0, 1, Low::kExcluded), &SamplingParams::top_p),
      real({"min_p"}, number(0, 1), &SamplingParams::min_p),
      real({"repeat_penalty", "repetition_penalty"}, number(0, 100, Low::kExcluded),
           &SamplingParams::repetition_penalty),
      real({"presence_penalty"}, number(-100, 100), &SamplingParams::presence_penalty),
      real({"frequency_penalty"}, number(-100, 100), &SamplingParams::frequency_penalty),
      seed(),
      count({"num_predict", "n", "predict", "max_tokens"}, limits::kModelContext,
            &SamplingParams::max_tokens),
      stop()};
  return all;
}

}  // namespace

Status set_parameter(RunOptions& options, const std::string& name, const std::string& value) {
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::vector<std::string> known;
  for (const Parameter& parameter : parameters()) {
    const auto& names = parameter.names;
    known.insert(known.end(), names.begin(), names.end());
    if (std::find(names.begin(), names.end(), plain) == names.end()) continue;
    if (names.front() == "stop" && value.empty()) {
      options.stop.clear();
      return ok_status();
    }
    const std::string wrong = parameter.range(value);
    REQUIRE(wrong.empty(), names.front(), ": ", wrong);
    REQUIRE(names.front() != "stop" || options.stop.size() < limits::kStopStrings, "stop: at most ",
            limits::kStopStrings, " stop strings may be set");
    parameter.set(options, value);
    return ok_status();
  }
  return Error::invalid("unknown parameter '", name, "'", did_you_mean(plain, known));
}

std::vector<std::string> parameter_lines(const RunOptions& options) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : parameters()) {
    std::string line = parameter.names.front();
    line.resize(18, ' ');
    lines.push_back(line + " " + parameter.show(options) + "  (" +
                    parameter.range.get_description() + ")");
  }
  return lines;
}

std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters()) names.push_back(parameter.names.front());
  return names;
}

}  // namespace hearth::cli
