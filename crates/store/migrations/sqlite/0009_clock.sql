-- The difference between the time of this database and the machine's elapsed time, and the start of the machine that the
-- elapsed time counts from. At most one row.
CREATE TABLE clock (
    boot_id   TEXT NOT NULL,
    offset_ms INTEGER NOT NULL
) STRICT;
