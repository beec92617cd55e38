// Bounded readers that the message codecs share. A private header of proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "proto/step.h"

namespace hearth::fields {

// A u32 count, at most `limit`, of items of at least `item_bytes` that the rest can hold.
Result<std::uint32_t> read_count(ByteReader& reader, const char* field, std::size_t limit,
                                 std::size_t item_bytes);
Result<bool> read_bool(ByteReader& reader, const char* field);
Result<TokenId> read_token(ByteReader& reader, const char* field, std::uint32_t vocabulary);
Result<Position> read_position(ByteReader& reader, const char* field, std::uint32_t context);
// Distinct ids only: no message has a use for naming a sequence twice in one list.
Result<std::vector<SequenceId>> read_sequences(ByteReader& reader, const char* field,
                                               std::size_t limit);
Status check_distinct(std::vector<SequenceId> sequences, const char* field);
// Items of a sequence stand together, their positions ascending by one.
template <typename Item>
Status check_runs(const std::vector<Item>& items, const char* field) {
  std::vector<SequenceId> runs;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].sequence != items[i - 1].sequence) {
      runs.push_back(items[i].sequence);
      continue;
    }
    const std::uint64_t before = items[i - 1].position;
    REQUIRE(items[i].position == before + 1, std::string(field) + " of sequence " +
                                                 std::to_string(items[i].sequence.value) +
                                                 " go from position " + std::to_string(before) +
                                                 " to " + std::to_string(items[i].position));
  }
  return check_distinct(std::move(runs), field);
}
// Nothing was missing and nothing is left over.
Status check_consumed(const ByteReader& reader, const char* message);

void write_sequences(ByteWriter& writer, const std::vector<SequenceId>& sequences);

void write_open(ByteWriter& writer, const SequenceOpen& open);
Result<SequenceOpen> read_open(ByteReader& reader, const StepShape& shape);
// Fewest bytes that an encoded SequenceOpen has.
std::size_t open_bytes_min();

}  // namespace hearth::fields
