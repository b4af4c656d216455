-- What a registered schema is for; NULL without a description.
ALTER TABLE registry ADD COLUMN description TEXT;
