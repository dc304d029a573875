//! Other people's files as recordings: see [`Importer`].
