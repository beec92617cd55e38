#include "cli/worker/known_rates.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/crypto.h"
#include "base/private_file.h"
#include "cli/process/build_name.h"

namespace hearth::cli {
namespace {

constexpr std::int64_t kRateSeconds = 30LL * 24 * 3600;
constexpr double kWasBusy = 1.25;
constexpr std::size_t kRateFileBytes = 512;
constexpr std::size_t kFigures = 7;
using Figures = std::array<double, kFigures>;

std::string rate_file(const std::filesystem::path& folder, const RateSubject& subject) {
  const std::string of = subject.model + "\n" + subject.device + "\n" +
                         std::to_string(subject.threads) + "\n" + receipt_build();
  return (folder / ("rate-" + blake2b(as_bytes(of)).hex().substr(0, 16))).string();
}

// A number a line and nothing else.
std::optional<Figures> read_figures(std::string_view text) {
  Figures figures{};
  for (double& figure : figures) {
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, figure);
    const bool usable = error == std::errc() && std::isfinite(figure) && figure >= 0.0;
    if (!usable || next == end || *next != '\n') return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(next - text.data()) + 1);
  }
  return text.empty() ? std::optional(figures) : std::nullopt;
}

}  // namespace

std::optional<node::StageRate> known_rate(const std::filesystem::path& folder,
                                          const RateSubject& subject, std::int64_t unix_seconds) {
  const auto bytes = read_private_file(rate_file(folder, subject), kRateFileBytes);
  if (!bytes.ok()) return std::nullopt;
  const auto figures =
      read_figures(std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  if (!figures) return std::nullopt;
  const auto& [measured_at, weight_rate, step, layer, layer_batch, head, head_batch] = *figures;
  const double age = static_cast<double>(unix_seconds) - measured_at;
  if (std::abs(age) > static_cast<double>(kRateSeconds)) return std::nullopt;
  if (subject.weight_bytes_per_second > kWasBusy * weight_rate) return std::nullopt;
  return node::StageRate{step, {layer, layer_batch}, {head, head_batch}};
}

void keep_rate(const std::filesystem::path& folder, const RateSubject& subject,
               const node::StageRate& rate, std::int64_t unix_seconds) {
  std::string text = std::to_string(unix_seconds) + "\n";
  for (const double figure : {subject.weight_bytes_per_second, rate.step_seconds, rate.layer.one,
                              rate.layer.batch, rate.head.one, rate.head.batch}) {
    char line[40];
    std::snprintf(line, sizeof line, "%.9g\n", figure);
    text += line;
  }
  (void)write_private_file(rate_file(folder, subject), as_bytes(text)).ok();
}

}  // namespace hearth::cli
