// Reads a JSON Schema (draft 2020-12, or 7 where $schema says so): what it allows, by type.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/schema_value.h"

namespace hearth::model {

class SchemaReader {
 public:
  // `root` and the budget must outlive the reader.
  SchemaReader(const Json& root, Budget& budget);

  // Errors end in the keyword and its JSON pointer. The value lives as long as the reader.
  Result<const SchemaValue*> value_of(const SchemaKey& key);
  // Whether no value fits, as far as a search of `depth` levels shows.
  Result<bool> surely_none(const SchemaValue& value, std::uint32_t depth);
  SchemaKey root_key() const;
  // An error when the root's own keywords leave no value; it names the keyword that removed the
  // last one.
  Status check_root();
  // "keyword: what (at #/pointer)".
  Error error_at(const Json* schema, std::string_view keyword, const Error& error) const;

 private:
  using Literal = SchemaLiteral;

  Result<SchemaValue> read(const Literal& literal);
  Result<SchemaValue> read_constant(const Json& constant);
  Result<SchemaValue> read_schema(const Json& schema);
  Status apply_keyword(const Json& schema, std::string_view name, const Json& value,
                       SchemaValue& out);
  Result<bool> apply_logic(const Json& schema, std::string_view name, const Json& value,
                           SchemaValue& out);
  Result<bool> apply_scalar(std::string_view name, const Json& value, SchemaValue& out);
  Result<bool> apply_dependency(const Json& schema, std::string_view name, const Json& value,
                                SchemaValue& out);
  Status on_keyword(const Json& schema, std::string_view keyword,
                    const std::function<Status(const Json&)>& take);
  Status read_counts(const Json& schema,
                     std::initializer_list<std::pair<std::string_view, std::uint32_t*>> counts);
  Status read_members(const Json& schema, MemberRules& rules);
  Status apply_arrays(const Json& schema, SchemaValue& out);
  Status apply_objects(const Json& schema, SchemaValue& out);
  Result<SchemaValue> any_of(const Json& list);
  Result<SchemaValue> one_of(const Json& list);
  Result<SchemaValue> if_then_else(const Json& schema);
  Result<SchemaValue> typed(const Json& type);
  Result<const Json*> resolve(std::string_view reference) const;
  Result<SchemaKey> key_of(const Json& schema) const;
  Status meet(SchemaValue& out, const SchemaValue& with);
  Result<bool> shape_surely_none(const SchemaKey& key, std::uint32_t depth);
  void find_anchors(const Json& at, bool top);
  bool pointer_to(const Json& at, const Json* wanted, std::string& pointer) const;

  const Json& root_;
  Budget& budget_;
  bool draft7_ = false;
  std::map<std::string, const Json*, std::less<>> anchors_;
  std::map<Literal, std::unique_ptr<SchemaValue>> read_;
  std::map<SchemaKey, std::unique_ptr<SchemaValue>> values_;
  std::vector<Literal> under_way_;
  std::string root_emptied_by_;   // the keyword; empty: none
  mutable bool located_ = false;  // the current error already has its place
};

}  // namespace hearth::model
