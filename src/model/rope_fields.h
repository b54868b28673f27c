// Rotary positions in config.json: rope_parameters of today, or rope_theta and rope_scaling beside each
// other, as older files have it.
#pragma once

#include "model/json_fields.h"
#include "plumb/config.h"

namespace plumb {

// What is absent has the value of `absent`, which is the family's; interleaved and fraction are no keys here
// but the family's own. Throws Error(config, unsupported).
RopeConfig read_rope(const JsonFields& fields, const RopeConfig& absent = {});
// Of one such object of the file.
RopeConfig read_rope_object(const JsonFields& file, const JsonFields& rope, const RopeConfig& absent);
JsonFields rope_object(const JsonFields& fields);  // the one that read_rope reads, or an empty one

// `rope` is resolved. Both spellings, since older engines read the second.
void write_rope(const RopeConfig& rope, JsonObject out);
void write_rope_object(const RopeConfig& rope, JsonObject out);

}  // namespace plumb
