#include "model/grammar/formats.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hearth::model {
namespace {

// Each allows the format or a part of it: generated texts are valid, but not every valid text can
// be generated.
#define DAYS                                                                                  \
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|" \
  "30)|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|"                \
  "(?:[02468][048]|[13579][26])00)-02-29)"
#define CLOCK "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?"
#define ZONE "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16 "[0-9a-fA-F]{1,4}"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define QUERY "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define AUTHORITY                                            \
  "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?" \
  "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::\\d*)?(?:/" PCHAR "*)*"

constexpr auto kFormats = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"date", DAYS},
    {"time", CLOCK ZONE},
    {"date-time", DAYS "[Tt]" CLOCK ZONE},
    {"duration",
     "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?"
     "|"
     "\\d+M(?:\\d+S)?|\\d+S))?|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"ipv4", IPV4},
    {"ipv6", "(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,6}:" H16 "|(?:" H16 ":){1,7}:|:(?::" H16
             "){1,7}|::|::(?:ffff:)?" IPV4},
    {"hostname", LABEL "(?:\\." LABEL "){0,2}"},
    {"email",
     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,16}(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,16}){0,2}"
     "@" LABEL "(?:\\." LABEL "){0,2}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY "|/?(?:" PCHAR "+(?:/" PCHAR "*)*)?)" QUERY},
    {"uri-reference", "(?:[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY "|/?(?:" PCHAR "+(?:/" PCHAR
                      "*)*)?)|" AUTHORITY "|/(?:" PCHAR "+(?:/" PCHAR "*)*)?)?" QUERY},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
});

}  // namespace

std::string_view regex_of_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &decltype(kFormats)::value_type::first);
  return found == kFormats.end() ? std::string_view() : found->second;
}

bool is_unserved_format(std::string_view name) {
  static constexpr auto kUnserved = std::to_array<std::string_view>(
      {"idn-email", "idn-hostname", "iri", "iri-reference", "regex", "uri-template"});
  return std::ranges::find(kUnserved, name) != kUnserved.end();
}

}  // namespace hearth::model
